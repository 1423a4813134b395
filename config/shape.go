package config

// Shape is what a file may hold beside the options of brokers, as values of the types that it is read into, the defaults in them. It is for
// tools that describe the format.
type Shape struct {
	// File has the sections that are there once, Route what a route says of itself, Defaults what routes may share, and
	// Source and Destination the long form of a route's ends.
	File, Route, Defaults, Source, Destination any
}

// fileKeys are the sections of a file that are not lists or mappings of names.
type fileKeys struct {
	// Admin is the HTTP server for health and metrics; there is none by default.
	Admin Admin `yaml:"admin"`
	// Memory is the budget of the whole process for messages in flight, in bytes.
	Memory Size `yaml:"memory"`
	// ShutdownTimeout is how long a stop waits for what is in flight.
	ShutdownTimeout Duration `yaml:"shutdown_timeout"`
}

// ShapeOf returns the shape of a file.
func ShapeOf() Shape {
	return Shape{
		File:        fileKeys{Memory: DefaultMemory, ShutdownTimeout: DefaultShutdownTimeout},
		Route:       routeText{Keys: defaultKeys()},
		Defaults:    sharedText{Keys: defaultKeys()},
		Source:      sourceText{},
		Destination: destinationText{},
	}
}
