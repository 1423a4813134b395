package handlers

import "github.com/ThreeDotsLabs/watermill/message"

// PublishAll is the Publish of a pipelined publisher: it calls send for one message after the other, which hands the message over with its turn, and waits until the
// outcome of all is known. It returns the first error. Nothing is sent after a message that could not be handed over.
func PublishAll(messages []*message.Message, send func(*message.Message, *Turn) error) error {
	var sent []*Turn
	var first error
	for _, msg := range messages {
		turn := TurnOf(msg)
		if first = send(msg, turn); first != nil {
			break
		}
		if len(messages) == 1 {
			return turn.Wait()
		}
		sent = append(sent, turn)
	}
	for k := len(sent) - 1; k >= 0; k-- {
		if err := sent[k].Wait(); err != nil {
			first = err
		}
	}
	return first
}
