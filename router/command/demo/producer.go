package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/integration/ledger"
)

// maxBehind is how many orders may be on their way: a machine that cannot carry so many a second gets fewer.
const maxBehind = 20_000

// producer is an application in the first data center: it produces orders into its own Kafka.
type producer struct {
	client    *kgo.Client
	ledger    *ledger.Ledger
	rate      int
	delivered *atomic.Int64
	confirmed atomic.Int64
	failed    atomic.Pointer[error]
}

func newProducer(w *world, books *ledger.Ledger, rate int, delivered *atomic.Int64) (*producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(w.shanghai.ListenAddrs()...),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(2*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("producer in shanghai: %w", err)
	}
	return &producer{client: client, ledger: books, rate: rate, delivered: delivered}, nil
}

// run produces until ctx ends, then waits until Kafka has confirmed everything, at most for flushing.
func (p *producer) run(ctx context.Context, flushing time.Duration) error {
	defer p.client.Close()
	p.produce(ctx)
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushing)
	defer cancel()
	if err := p.client.Flush(flush); err != nil {
		return fmt.Errorf("producer in shanghai: not everything was confirmed within %v: %w", flushing, err)
	}
	if err := p.failed.Load(); err != nil {
		return fmt.Errorf("producer in shanghai: %w", *err)
	}
	return nil
}

func (p *producer) produce(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	var n int64
	for {
		due := int64(time.Since(began).Seconds() * float64(p.rate))
		for ; n < due && n-p.delivered.Load() < maxBehind && ctx.Err() == nil; n++ {
			p.send(ctx, newOrder(n))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send enters the order into the books once Kafka has it: what it refused was never produced.
func (p *producer) send(ctx context.Context, o order) {
	payload := o.encode()
	// An order that is on its way when the producer is stopped is not to fail.
	p.client.Produce(context.WithoutCancel(ctx), &kgo.Record{Key: []byte(o.Customer), Value: payload}, func(_ *kgo.Record, err error) {
		if err != nil {
			p.failed.CompareAndSwap(nil, &err)
			return
		}
		p.ledger.Produced(o.Customer, o.Number, fingerprint(payload))
		p.confirmed.Add(1)
	})
}
