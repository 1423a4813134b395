//go:build !race

package integration

// RaceDetector is true when the tests, and with them the program, run with the race detector, which takes several times the memory.
const RaceDetector = false

func raceFlags() []string { return nil }
