package record_test

import (
	"context"
	"testing"

	"github.com/mqferry/mqferry/handlers/record"
)

// typical is what most messages look like: a key, a kilobyte, a few headers.
func typical() *record.Record {
	return &record.Record{
		ID: "4f6c1c0a-6b7c-4b60-9a3e-0b7a3a8f2a11", Key: []byte("customer-4711"), Value: make([]byte, 1024),
		Headers: []record.Header{
			header("trace", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
			header("content-type", "application/json"), header("origin", "shop"),
		},
		Time: sample().Time, Source: sample().Source,
	}
}

func BenchmarkDeriveID(b *testing.B) {
	r := sample()
	b.ReportAllocs()
	for b.Loop() {
		r.ID = record.DeriveID(r.Source)
	}
}

func BenchmarkMetadata(b *testing.B) {
	r := typical()
	b.ReportAllocs()
	for b.Loop() {
		record.Metadata(r)
	}
}

func BenchmarkMessage(b *testing.B) {
	r, ctx := typical(), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		r.Message(ctx)
	}
}

func BenchmarkOutgoingUntouched(b *testing.B) {
	msg := typical().Message(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		record.Outgoing(msg)
	}
}

func BenchmarkOutgoingStamped(b *testing.B) {
	msg := typical().Message(context.Background())
	msg.Metadata.Set("stamp", "1")
	b.ReportAllocs()
	for b.Loop() {
		record.Outgoing(msg)
	}
}

func BenchmarkFold(b *testing.B) {
	r := typical()
	b.ReportAllocs()
	for b.Loop() {
		record.Fold(r)
	}
}

func BenchmarkUnfold(b *testing.B) {
	r := typical()
	metadata, payload := record.Fold(r)
	b.ReportAllocs()
	for b.Loop() {
		record.Unfold(r.ID, metadata, payload)
	}
}

func BenchmarkFields(b *testing.B) {
	fields := []string{"sensor", "7", "temperature", "20.5", "payload", "{}"}
	b.ReportAllocs()
	for b.Loop() {
		record.FoldFields(record.UnfoldFields(fields))
	}
}
