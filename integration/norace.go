//go:build !race

package integration

func raceFlags() []string { return nil }
