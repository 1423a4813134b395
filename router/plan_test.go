package router_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/router"
)

func TestMistakesOfADataCenterDoNotHideThoseOfItsRoutes(t *testing.T) {
	_, err := router.Parse("test.yml", []byte(`
datacenters:
  a: {kafka: {brokers: ["127.0.0.1:9092"], brokerz: 1}}
  b: {redis: {address: "127.0.0.1:6379"}}
routes:
  - {name: one, from: {datacenter: a, topic: x, fetch_wait: 1s}, to: {datacenter: b, topic: y, partition: auto}}
`))
	require.ErrorContains(t, err, `test.yml:3: datacenters.a.kafka: unknown key "brokerz"; did you mean "brokers"?`)
	require.ErrorContains(t, err, `test.yml:6: routes[0].from: unknown key "fetch_wait"`)
	require.ErrorContains(t, err, `test.yml:6: routes[0].to: unknown key "partition"`)
}

func TestATopicThatIsMissingOrNotUnderstoodIsAMistake(t *testing.T) {
	_, err := router.Parse("test.yml", []byte(`
datacenters:
  a: {memory: {}}
routes:
  - {name: one, from: {datacenter: a}, to: {datacenter: a}}
  - {name: two, from: a/x, to: {datacenter: a, topic: "{tpoic}.out"}}
  - {name: three, from: a/y, to: {datacenter: a, topic: "{topic}.out"}}
`))
	require.ErrorContains(t, err, `test.yml:5: routes[0].from.topic: is missing; write the name of a topic`)
	require.ErrorContains(t, err, `test.yml:5: routes[0].to.topic: is missing`)
	require.ErrorContains(t, err, `test.yml:6: routes[1].to.topic: "{tpoic}.out": {tpoic} is not one of {key}`)
	require.NotContains(t, err.Error(), "routes[2]")
}

func TestWhatTheFileCallsByAnotherNameThanTopicRunsToo(t *testing.T) {
	cfg, err := router.Parse("test.yml", []byte(`
datacenters:
  a: {rabbitmq: {url: "amqp://127.0.0.1/"}}
routes:
  - {name: one, from: {datacenter: a, exchange: events}, to: {datacenter: a, exchange: copies}}
`))
	require.NoError(t, err)
	_, err = router.New(cfg)
	require.NoError(t, err)
	require.Equal(t, "mqferry-one", cfg.Routes[0].From.Topic)
	require.Equal(t, "copies", cfg.Routes[0].To.Topic)
}
