// Package router runs routes: each binds a subscriber on a source broker to a publisher on a destination broker, in a Watermill router of its own,
// so that one route's trouble is not another's.
//
// The way from a file to running routes has three steps, each in a file of its own: newPlan checks everything that can be checked without
// a network; build makes one route's publisher, subscriber and chain out of open connections, and undoes what it made when it fails; and [Router.Run]
// keeps the routes running until its context ends, then stops them cleanly.
//
//	cfg, err := router.Load([]string{"mqferry.yml"})
//	r, err := router.New(cfg)
//	err = r.Run(ctx)
package router
