package memory

import "github.com/mqferry/mqferry/config"

// Config is the options of a data center.
type Config struct {
	// Name is the site in the store; the data center's name if empty.
	Name string `yaml:"name"`
}

// SourceConfig is the options of a source: none.
type SourceConfig struct{}

// DestinationConfig is the options of a destination.
type DestinationConfig struct {
	// Lanes is how many lanes the topic is made with if it is missing; 1 by default.
	Lanes int `yaml:"lanes"`
	// Keep says whether messages are kept or only counted; true by default.
	Keep bool `yaml:"keep"`
}

// DefaultConfig gives the options that hold where the config file says nothing.
func DefaultConfig() (Config, SourceConfig, DestinationConfig) {
	return Config{}, SourceConfig{}, DestinationConfig{Lanes: 1, Keep: true}
}

// Validate returns an error when there would be no lane.
func (d *DestinationConfig) Validate() error {
	if d.Lanes < 1 {
		return config.Invalid("lanes", "%d is no number of lanes: at least 1 is needed", d.Lanes)
	}
	return nil
}
