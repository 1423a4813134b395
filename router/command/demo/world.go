package demo

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mqferry/mqferry/integration/link"
)

const (
	topic      = "orders"
	partitions = 4
	// roundTrip is what the link between the data centers takes, there and back.
	roundTrip = 50 * time.Millisecond
	// retention bounds what Kafka keeps; it is far longer than anything stays unread.
	retention      = 2 * time.Minute
	retentionCheck = 5 * time.Second
)

// world is the two data centers, the link between them, and the address of the admin pages.
type world struct {
	shanghai  *kfake.Cluster
	frankfurt *miniredis.Miniredis
	link      *link.Link
	admin     net.Listener
}

// newWorld starts everything that an operator would have, and closes it again when something does not start.
func newWorld(adminAddress string) (_ *world, err error) {
	w := &world{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.admin, err = net.Listen("tcp", adminAddress); err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w; free that address, or choose another with --admin", err)
	}
	w.shanghai, err = kfake.NewCluster(
		kfake.NumBrokers(2),
		kfake.SeedTopics(partitions, topic),
		kfake.BrokerConfigs(map[string]string{"log.retention.ms": fmt.Sprint(retention.Milliseconds())}),
	)
	if err != nil {
		return nil, fmt.Errorf("start Kafka in this process: %w", err)
	}
	if w.frankfurt, err = miniredis.Run(); err != nil {
		return nil, fmt.Errorf("start Redis in this process: %w", err)
	}
	if w.link, err = link.New("127.0.0.1:0", w.frankfurt.Addr()); err != nil {
		return nil, err
	}
	w.link.Delay(roundTrip)
	return w, nil
}

// config is what an operator would write. Only the router takes the link: the applications are at home in their data centers.
func (w *world) config() string {
	return fmt.Sprintf(`datacenters:
  shanghai:
    kafka: {brokers: ["%s"]}
  frankfurt:
    redis: {address: "%s"}

routes:
  - name: orders
    from: shanghai/%s
    to: frankfurt/%[3]s

admin: {listen: "%[4]s"}
`, strings.Join(w.shanghai.ListenAddrs(), `", "`), w.link.Address(), topic, w.admin.Addr())
}

// tidy keeps what Kafka stores bounded until stop is closed; the fake one forgets nothing by itself.
func (w *world) tidy(stop <-chan struct{}) {
	tick := time.NewTicker(retentionCheck)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			w.shanghai.ApplyRetention()
		}
	}
}

func (w *world) close() {
	if w.link != nil {
		w.link.Close()
	}
	if w.frankfurt != nil {
		w.frankfurt.Close()
	}
	if w.shanghai != nil {
		w.shanghai.Close()
	}
	if w.admin != nil {
		_ = w.admin.Close() // Whoever served on it has closed it already.
	}
}
