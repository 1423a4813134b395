package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqferry/mqferry/integration/ledger"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/admin"
)

// drainTimeout is how long the demo waits, at its end, for what is on its way.
const drainTimeout = 20 * time.Second

// ErrFailed says that not every order arrived exactly once and in its order, or that something did not end as it should. What it was has
// been written to Options.Out.
var ErrFailed = errors.New("the demo failed")

// demo is one run.
type demo struct {
	options  Options
	world    *world
	screen   *screen
	books    *ledger.Ledger
	router   *router.Router
	producer *producer
	consumer *consumer

	began  time.Time
	dead   atomic.Bool // Whether the link is dead now.
	failed atomic.Bool
}

// Run shows mqferry at work until o.For is over, or ctx ends; then it stops the producer, waits until everything has arrived, stops the router, and
// counts. The last line that it writes is that count. The error is ErrFailed, or says what could not be started.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	d, err := newDemo(o)
	if err != nil {
		return err
	}
	defer d.world.close()
	pages := admin.Serve(d.world.admin, admin.New(d.router), nil)
	defer pages.Stop()
	d.introduce()
	d.run(ctx)
	return d.verdict()
}

func newDemo(o Options) (_ *demo, err error) {
	d := &demo{options: o, screen: newScreen(o.Out, o.Terminal), books: o.Ledger}
	if d.books == nil {
		d.books = ledger.New()
	}
	if d.world, err = newWorld(o.Admin); err != nil {
		return nil, err
	}
	if err := d.build(); err != nil {
		d.world.close()
		return nil, err
	}
	return d, nil
}

func (d *demo) build() error {
	cfg, err := router.Parse("demo.yml", []byte(d.world.config()))
	if err != nil {
		return err
	}
	if d.router, err = router.New(cfg); err != nil {
		return err
	}
	d.consumer = newConsumer(d.world, d.books)
	d.producer, err = newProducer(d.world, d.books, d.options.Rate, &d.consumer.delivered)
	return err
}

// introduce says what is about to be seen.
func (d *demo) introduce() {
	d.screen.say("Two data centers in this process, on real ports, and mqferry between them:\n")
	for line := range strings.Lines(d.world.config()) {
		d.screen.say("%s", strings.TrimRight("  "+line, " \n"))
	}
	end := "until Ctrl-C"
	if d.options.For > 0 {
		end = fmt.Sprintf("for %v", d.options.For)
	}
	d.screen.say("\nIn shanghai, %s orders a second are produced, %s.", grouped(d.options.Rate), end)
	d.screen.say("The link to frankfurt takes %v there and back, and will go dead for a moment.", roundTrip)
	d.screen.say("Health and metrics: http://%s/\n", d.world.admin.Addr())
}

// run stops things in the order in which messages flow, so that nothing is left on the way.
func (d *demo) run(ctx context.Context) {
	d.began = time.Now()
	working := context.WithoutCancel(ctx)
	var around, routing, consuming sync.WaitGroup
	over, read := make(chan struct{}), make(chan struct{})
	around.Go(func() { d.world.tidy(over) })
	around.Go(func() { d.screen.watch(over, d.line) })
	consuming.Go(func() { d.fail(d.consumer.run(working, read)) })
	carrying, stopRouter := context.WithCancel(working)
	defer stopRouter()
	routing.Go(func() { d.fail(d.router.Run(carrying)) })

	d.produce(ctx)
	if !d.await(drainTimeout, d.arrived) {
		d.fail(fmt.Errorf("not everything has arrived within %v%s", drainTimeout, d.trouble()))
	}
	close(over)
	around.Wait()
	stopRouter()
	routing.Wait()
	close(read)
	consuming.Wait()
}

// produce ends when the producer and the outages have ended.
func (d *demo) produce(ctx context.Context) {
	if d.options.For > 0 {
		timed, stop := context.WithTimeout(ctx, d.options.For)
		defer stop()
		ctx = timed
	}
	var outages sync.WaitGroup
	outages.Go(func() { d.outages(ctx) })
	d.fail(d.producer.run(ctx, drainTimeout))
	outages.Wait()
}

func (d *demo) arrived() bool { return d.consumer.delivered.Load() >= d.producer.confirmed.Load() }

// await is false when what it waits for did not come in time.
func (d *demo) await(timeout time.Duration, reached func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for !reached() {
		if !wait(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return true
}

// line is the line of progress.
func (d *demo) line() string {
	inFlight := 0
	for _, s := range d.router.Status() {
		inFlight += s.InFlight()
	}
	state := fmt.Sprintf("link %v", roundTrip)
	if d.dead.Load() {
		state = "link DEAD"
	}
	return fmt.Sprintf("%s  produced %s  delivered %s  in flight %s  %s%s", d.clock(), grouped(d.producer.confirmed.Load()),
		grouped(d.consumer.delivered.Load()), grouped(inFlight), state, d.trouble())
}

func (d *demo) clock() string { return fmt.Sprintf("%5.1f s", time.Since(d.began).Seconds()) }

// trouble is why the route does not progress, if so.
func (d *demo) trouble() string {
	for _, s := range d.router.Status() {
		if trouble := s.Trouble(); trouble != "" {
			return ": " + trouble
		}
	}
	return ""
}

// fail notes and shows what went wrong, if anything did.
func (d *demo) fail(err error) {
	if err == nil {
		return
	}
	d.failed.Store(true)
	d.screen.say("%s  failed: %v", d.clock(), err)
}

// verdict writes the last line.
func (d *demo) verdict() error {
	report := d.books.Check()
	for _, f := range report.Findings {
		d.screen.say("%s: %s, order %d: %s", f.Kind, f.Lane, f.Seq, f.Detail)
	}
	d.screen.say("demo: %v", report)
	if d.failed.Load() || report.Err() != nil || report.Duplicated > 0 {
		return ErrFailed
	}
	return nil
}
