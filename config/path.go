package config

import "path/filepath"

// Path is the name of a file. A relative one is relative to the folder of the configuration file that it stands in.
type Path string

// resolved gives the path as the process can use it.
func resolved(document, path string) Path {
	if path == "" || filepath.IsAbs(path) {
		return Path(path)
	}
	return Path(filepath.Join(filepath.Dir(document), path))
}
