// Package brokers gives tests real brokers: Kafka, RabbitMQ and Redis processes on this machine, or addresses from the environment.
//
// [Kafka], [RabbitMQ] and [Redis] are shared by all tests of a test binary and are started at the first call; [KafkaOwn],
// [RabbitMQOwn] and [RedisOwn] belong to one test, which may stop, kill and pause them as it likes; [KafkaSecured],
// [RabbitMQSecured] and [RedisSecured] demand TLS and passwords. A package that uses the shared ones ends them in its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(brokers.Main(m)) }
//
// or, with a check for leaked goroutines, goleak.VerifyTestMain(brokers.Suite(m)).
//
// What is started listens on 127.0.0.1 only, on ports chosen at run time, and dies with the test binary. install.sh in
// this folder installs what is needed. Without it the tests skip and say so; with MQFERRY_TEST_REQUIRE_BROKERS=1 they fail.
// Addresses may be given instead: MQFERRY_TEST_KAFKA_A, MQFERRY_TEST_RABBITMQ_A, MQFERRY_TEST_REDIS_A and the same with B, each
// host:port, or a URL for RabbitMQ.
package brokers
