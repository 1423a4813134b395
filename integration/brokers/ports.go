package brokers

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range that the kernel gives to outgoing connections: a client that keeps dialling the
// port of a stopped broker could otherwise be given that very port, and connect to itself.
const (
	firstPort = 20000
	lastPort  = 29999
)

// ports are all that a broker may need.
type ports struct {
	client     int // what applications connect to
	link       int // where a link listens
	behindLink int // Kafka's listener for those who come through the link
	internal   int // for the nodes of a cluster among each other
	control    int // Kafka's controller, RabbitMQ's management API

	locks []net.PacketConn
}

// reservePorts chooses free ports and keeps other test binaries from choosing the same until they are released.
func reservePorts() (ports, error) {
	var p ports
	for _, port := range []*int{&p.client, &p.link, &p.behindLink, &p.internal, &p.control} {
		number, lock, err := reservePort()
		if err != nil {
			p.release()
			return ports{}, err
		}
		*port = number
		p.locks = append(p.locks, lock)
	}
	return p, nil
}

// reservePort locks a number by listening on it for UDP, which no broker uses: that lock ends with the process.
func reservePort() (int, net.PacketConn, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		lock, err := net.ListenPacket("udp", address(port))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", address(port))
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = probe.Close()
		return port, lock, nil
	}
	return 0, nil, errors.New("no free port between " + strconv.Itoa(firstPort) + " and " + strconv.Itoa(lastPort))
}

func (p *ports) release() {
	for _, lock := range p.locks {
		_ = lock.Close()
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
