package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
)

// small makes a message of more than 4 KiB one that can never be carried.
const small = ", max_message_bytes: 4KiB"

// sendOneHuge sends 40 messages, one that is too large, and 59 more.
func sendOneHuge(t *testing.T, route *integration.Route) {
	t.Helper()
	route.Send(t, culprit)
	route.From.Payloads(5000)
	route.Send(t, 1)
	route.From.Payloads(1000)
	route.Send(t, policyMessages-culprit-1)
}

// elsewhere moves the poison queue of all routes in the config file to a third data center.
func elsewhere(config string, morgue integration.End) string {
	name, broker := morgue.Site()
	config = strings.Replace(config, "datacenters:\n", fmt.Sprintf("datacenters:\n  %s: {%s}\n", name, broker), 1)
	return strings.Replace(config, "defaults: {", "defaults: {poison: {datacenter: "+name+"}, ", 1)
}

// theHuge is what the poison queue has then.
func theHuge() integration.Parked {
	return integration.Parked{First: culprit, Last: culprit, Class: "permanent", Attempts: 1}
}

// Messages are parked at a third data center, each kind of broker in turn. The ends of the route are others, and healthy.
func TestParkingOutlivesWhateverHappensToItsBroker(t *testing.T) {
	for _, k := range []kind{kafka(), rabbitmq(), redis()} {
		t.Run(k.name, func(t *testing.T) {
			if brokers.Brief() && k.name == "kafka" {
				t.Skip("it takes long to start, twice")
			}
			t.Parallel()
			morgue := k.own(t)
			for _, test := range []struct {
				name string
				run  func(t *testing.T, route *integration.Route, morgue *brokers.Broker, config string)
			}{
				{"down", parkWhileDown}, {"dies in the middle", parkWhileItDies}, {"stands still", stopWhileItStandsStill},
			} {
				if brokers.Brief() && test.name == "dies in the middle" {
					continue
				}
				t.Run(test.name, func(t *testing.T) {
					from := integration.NewRedis(t, "near", brokers.Redis(t, "a"))
					from.Lease("1s")
					route := integration.NewRoute(from, integration.NewKafka(t, "far", brokers.Kafka(t, "b"), 1))
					test.run(t, route, morgue, elsewhere(quick(small, route), k.end(t, "morgue", morgue)))
				})
			}
		})
	}
}

func parkWhileDown(t *testing.T, route *integration.Route, morgue *brokers.Broker, config string) {
	ferry := integration.Run(t, config)
	ferry.WaitReady(t, time.Minute)
	morgue.Kill(t)
	sendOneHuge(t, route)
	ferry.WaitTrouble(t, route, time.Minute, "cannot be parked in morgue")
	committed := int(ferry.Metric("mqferry_messages_committed_total", route.Name))
	require.LessOrEqual(t, committed, culprit, "what is not parked yet is acked")

	// A stop does not wait for it longer than it may, and nothing is acked for it.
	require.Equal(t, 1, ferry.Terminate(t, 10*time.Second), ferry.Log(t))
	route.WantUnacked(t)
	ferry = integration.Run(t, config)
	morgue.Start(t)
	route.WaitAcked(t, time.Minute)
	require.Equal(t, 1, ferry.Ended(route, "parked"))
	ferry.WaitReady(t, time.Minute)
	ferry.Stop(t, stopTime)
	route.WantOneMissing(t, culprit, policyMessages)
	route.WantParked(t, config, theHuge())
}

func parkWhileItDies(t *testing.T, route *integration.Route, morgue *brokers.Broker, config string) {
	route.From.Payloads(5000)
	ferry := integration.Run(t, config)
	ferry.WaitReady(t, time.Minute)
	stop := route.Load(t, 500)
	waitParked := func(n int) {
		t.Helper()
		integration.Eventually(t, time.Minute, func() string {
			if parked := ferry.Ended(route, "parked"); parked < n {
				return fmt.Sprintf("%d messages are parked, not %d", parked, n)
			}
			return ""
		})
	}
	waitParked(100)
	morgue.Kill(t)
	ferry.WaitTrouble(t, route, time.Minute, "cannot be parked in morgue")
	stop()
	route.WantUnacked(t)
	parked := ferry.Ended(route, "parked")
	morgue.Start(t)
	waitParked(parked + 100)
	route.WaitAcked(t, time.Minute)
	parked = ferry.Ended(route, "parked")
	require.Equal(t, route.Sent(), parked+ferry.Ended(route, "forwarded"))
	ferry.Stop(t, stopTime)
	require.GreaterOrEqual(t, len(route.InPoisonQueue(t, config)), parked)
	poison(t, strings.Replace(config, small, "", 1), "replay", route.Name)
	t.Log(route.WantInAnyOrder(t, policyMessages))
	require.Empty(t, route.InPoisonQueue(t, config))
}

func stopWhileItStandsStill(t *testing.T, route *integration.Route, morgue *brokers.Broker, config string) {
	ferry := integration.Run(t, config)
	ferry.WaitReady(t, time.Minute)
	morgue.Pause(t)
	sendOneHuge(t, route)
	ferry.WaitConfirmed(t, route, culprit, time.Minute)
	require.Zero(t, ferry.Ended(route, "parked"))
	require.Equal(t, 1, ferry.Terminate(t, 10*time.Second), ferry.Log(t))
	route.WantUnacked(t)
	morgue.Resume(t)
	ferry = integration.Run(t, config)
	route.WaitAcked(t, time.Minute)
	ferry.Stop(t, stopTime)
	route.WantOneMissing(t, culprit, policyMessages)
	require.NotEmpty(t, route.InPoisonQueue(t, config)) // What was on the wire may have been stored too.
}

func TestAStopWhileARefusedMessageIsTriedAgainParksNothingAndLosesNothing(t *testing.T) {
	for _, f := range refusals() {
		if f.policy == "on_refused" {
			continue // What Kafka refuses is never tried again.
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			to, text := f.place(t)
			route := integration.NewRoute(lane(t, f.pair.from, "near", f.pair.from.shared(t, "a")), to)
			config := strings.Replace(quick(", "+f.policy+": park", route), retry, "retry: {initial_interval: 1h, max_interval: 1h}", 1)
			if text != "" {
				config = strings.Replace(config, "to: far/"+to.Topic(), "to: "+text, 1)
			}
			ferry := integration.Run(t, config)
			route.Send(t, before)
			route.WaitAcked(t, time.Minute)
			f.begin(t, route)
			route.Send(t, policyMessages-before)
			integration.Eventually(t, time.Minute, func() string {
				if ferry.Metric("mqferry_attempts_refused_total", route.Name) == 0 {
					return "nothing is refused"
				}
				return ""
			})
			ferry.Terminate(t, 10*time.Second)
			route.WantUnacked(t)
			require.Empty(t, route.InPoisonQueue(t, config))

			f.end(t, route)
			ferry = integration.Run(t, config)
			route.WaitAcked(t, time.Minute)
			ferry.Stop(t, stopTime)
			route.WantExactlyOnce(t)
			require.Empty(t, route.InPoisonQueue(t, config))
		})
	}
}

// eachMorgue runs the test for each kind of broker as the source, where messages are parked by default.
func eachMorgue(t *testing.T, test func(t *testing.T, p pair)) {
	t.Helper()
	for _, p := range eachEnd() {
		t.Run(p.from.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// poison runs mqferry poison, which must succeed, and returns what it wrote.
func poison(t *testing.T, config string, words ...string) string {
	t.Helper()
	code, output := integration.Poison(t, config, words...)
	require.Zero(t, code, output)
	return output
}

func TestPoisonCommandsTouchTheirRouteOnlyWhetherItRunsOrNot(t *testing.T) {
	eachMorgue(t, func(t *testing.T, p pair) {
		from, to := p.from.shared(t, "a"), p.to.shared(t, "b")
		one := integration.NewRoute(lane(t, p.from, "near", from), lane(t, p.to, "far", to))
		two := integration.NewRoute(lane(t, p.from, "near", from), lane(t, p.to, "far", to))
		shared := ", poison: {topic: " + one.From.Topic() + ".dead}"
		config := quick(shared+small, one, two)
		for _, r := range []*integration.Route{one, two} {
			r.From.Payloads(5000)
			r.Send(t, 20)
		}
		ferry := integration.Run(t, config)
		for _, r := range []*integration.Route{one, two} {
			r.WaitAcked(t, time.Minute)
		}
		all := ferry.Ended(one, "parked")
		require.Equal(t, all, ferry.Ended(two, "parked"))
		require.Greater(t, all, 10)
		n := all
		for _, running := range []bool{true, false} {
			if !running {
				ferry.Stop(t, stopTime)
			}
			for range 2 { // Looking takes nothing out.
				require.Contains(t, poison(t, config, "list", one.Name), fmt.Sprintf("\n%d messages in near/%s.dead\n", n, one.From.Topic()))
			}
			shown := poison(t, config, "show", one.Name, "--json", "--limit", "1")
			var m struct {
				Source, Class, Reason string
				Headers               []struct{ Name, Value string }
			}
			require.NoError(t, json.Unmarshal([]byte(shown), &m), shown)
			require.True(t, strings.HasPrefix(m.Source, "near/"+one.From.Topic()), m.Source)
			require.Equal(t, "permanent", m.Class)
			require.Contains(t, m.Reason, "max_message_bytes is 4KiB")
			require.Contains(t, fmt.Sprint(m.Headers), "test-seq")
			require.Contains(t, poison(t, config, "show", one.Name, "--limit", "1"), "reason     the message is too large")
			require.Contains(t, poison(t, config, "replay", one.Name, "--dry-run"), fmt.Sprintf("%d messages", n))
			require.Contains(t, poison(t, config, "discard", one.Name, "--limit", "2"), "2 messages discarded")
			n -= 2
			one.WantParkedCount(t, config, n)
			two.WantParkedCount(t, config, all)
		}
		// The limit is gone: what was parked may go.
		generous := quick(shared, one, two)
		require.Contains(t, poison(t, generous, "replay", one.Name), fmt.Sprintf("%d messages delivered", n))
		one.WantParkedCount(t, config, 0)
		require.Contains(t, poison(t, generous, "replay", two.Name), fmt.Sprintf("%d messages delivered", all))
		two.WantParkedCount(t, config, 0)
		two.WantInAnyOrder(t, 0)
	})
}

func TestAReplayThatIsKilledHalfWayLosesNothing(t *testing.T) {
	eachMorgue(t, func(t *testing.T, p pair) {
		const window = 200
		route := integration.NewRoute(lane(t, p.from, "near", p.from.shared(t, "a")), lane(t, p.to, "far", p.to.shared(t, "b")))
		route.From.Payloads(5000)
		route.Send(t, size(2000, 1000))
		ferry := integration.Run(t, quick(small, route))
		route.WaitAcked(t, time.Minute)
		n := ferry.Ended(route, "parked")
		ferry.Stop(t, stopTime)
		arrived := route.Arrived(t)
		require.Equal(t, route.Sent(), arrived+n)

		config := strings.Replace(quick("", route), "window: 1000", fmt.Sprintf("window: %d", window), 1)
		slowly := strings.Replace(config, "defaults: {", "defaults: {throttle: {messages_per_second: 1000, burst: 0.1}, ", 1)
		replay := integration.StartPoison(t, slowly, "replay", route.Name)
		route.WaitArrived(t, arrived+n/3, time.Minute)
		replay.Kill(t)
		var left int
		integration.Eventually(t, time.Minute, func() string { // What the dead one held comes back.
			left = len(route.InPoisonQueue(t, config))
			if gone := n - left; gone > route.Arrived(t)-arrived {
				return fmt.Sprintf("%d are gone from the poison queue, more than were delivered", gone)
			}
			return ""
		})
		require.NotZero(t, left, "all was replayed already: the test shows nothing")
		require.Less(t, left, n, "nothing was taken out")
		require.Contains(t, poison(t, config, "replay", route.Name), fmt.Sprintf("%d messages delivered", left))
		route.WantParkedCount(t, config, 0)
		t.Logf("%d of %d were left; %s", left, n, route.WantInAnyOrder(t, window))
	})
}
