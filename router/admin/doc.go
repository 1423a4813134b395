// Package admin serves over HTTP what a router is doing, for people, load balancers and Prometheus.
//
//	/         what the routes do now, as text
//	/healthz  200 while the process lives
//	/readyz   200 while every route is connected and progressing, otherwise 503 and a line for each route in trouble
//	/metrics  the routes' counters, and those of the process, for Prometheus
//
// It reads and never changes anything, and it asks for no password: let it listen on an address that only those who may see it can reach.
package admin
