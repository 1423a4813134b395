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
