//go:build race

package integration

// raceFlags build the program like the test: with the race detector.
func raceFlags() []string { return []string{"-race"} }
