package redisstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
)

// A group gives each entry to one of its consumers, so two that read at the same time would break the order of the stream. Therefore one
// instance reads, the one that has the lease: a hash with its name, a token that no other reader has, whatever its name, and the time by
// the server's clock until which it has it. A reader that merely cannot reach the server keeps its lane: what it has in flight goes on in order, and so do the
// entries of whoever took over, from the first one that is not acked: whichever copy of a message comes first comes in order.

// leaseScript gets or renews the lease, and tells whether that was possible and who else had it before.
const leaseScript = `
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local lease = redis.call('HMGET', KEYS[1], 'holder', 'token', 'until')
local mine = lease[2] == ARGV[2]
local free = not lease[1] or mine or tonumber(lease[3]) <= now
if free then
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'token', ARGV[2], 'until', string.format('%.0f', now + ARGV[3]))
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return {free and 1 or 0, mine and '' or lease[1] or ''}`

// releaseScript ends the lease at once; the name stays, for the successor to know whose entries it may take over.
const releaseScript = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'until', '0')
end
return 1`

// standbyRetry is how often an instance that stands by asks for the lease: it may be given back at any time.
const standbyRetry = time.Second

// leaseMemory is how long after its last use a lease's key goes away.
const leaseMemory = 7 * 24 * time.Hour

func leaseKey(s handlers.Source) string {
	return fmt.Sprintf("mqferry:{%s}:%s:lease", s.Topic, s.Group)
}

// acquire gets or renews the lease; other is who had it last, "" when that was this reader or nobody knows.
func (r *reader) acquire(ctx context.Context) (won bool, other string, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(answerTimeout, max(time.Second, time.Duration(r.options.Lease)/3)))
	defer cancel()
	reply, err := r.client.Eval(ctx, leaseScript, []string{leaseKey(r.source)},
		r.consumer, r.token, time.Duration(r.options.Lease).Milliseconds(), leaseMemory.Milliseconds()).Slice()
	if err != nil {
		return false, "", fmt.Errorf("lease of stream %s/%s: %w", r.source.DataCenter, r.source.Topic, err)
	}
	if len(reply) != 2 {
		return false, "", fmt.Errorf("lease of stream %s/%s: the server answered with %d values", r.source.DataCenter, r.source.Topic, len(reply))
	}
	one, _ := reply[0].(int64)
	other, _ = reply[1].(string)
	return one == 1, other, nil
}

// lead gets or renews the lease, and closes the lane when another instance has it, or had it in between. With an intake it
// opens a lane when there is none. A server that cannot be asked changes nothing.
func (r *reader) lead(ctx context.Context, in *handlers.Intake) (*handlers.Inlet, error) {
	r.leasing.Lock()
	defer r.leasing.Unlock()
	won, other, err := r.acquire(ctx)
	if err != nil {
		return nil, err
	}
	if other != "" {
		r.dropLane()
	}
	if !won {
		return nil, fmt.Errorf("%w: %q holds the lease of stream %s/%s", errStandby, other, r.source.DataCenter, r.source.Topic)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other != "" {
		r.predecessor = other
	}
	if r.inlet == nil && in != nil {
		r.inlet = in.Inlet(r.source.Topic, nil)
	}
	return r.inlet, nil
}

// dropLane gives the lane up: from now on nothing of it is acked, and all that is pending has to be taken over again.
func (r *reader) dropLane() {
	r.mu.Lock()
	inlet, end := r.inlet, r.end
	r.inlet = nil
	r.mu.Unlock()
	if inlet == nil {
		return
	}
	end(errLost)
	inlet.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.held)
}

// awaitLease waits until this instance has the lease, and returns the open lane. Meanwhile the source is down, since nothing comes from it here.
func (r *reader) awaitLease(ctx context.Context, in *handlers.Intake) (*handlers.Inlet, error) {
	for {
		inlet, err := r.lead(ctx, in)
		if !errors.Is(err, errStandby) {
			return inlet, err
		}
		r.source.Health.Down(err)
		handlers.Pause(ctx, min(standbyRetry, time.Duration(r.options.Lease)/3))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// keep renews the lease and the claims on what is held, until the reader is closed: also while a read blocks, while the window is full,
// and while the last messages drain.
func (r *reader) keep() {
	renew := min(time.Duration(r.options.Lease), time.Duration(r.options.ClaimIdle)) / 5
	ticker := time.NewTicker(renew)
	defer ticker.Stop()
	claimed := time.Now()
	for {
		select {
		case <-r.life.Done():
			return
		case <-ticker.C:
		}
		if !r.leads() {
			continue
		}
		if _, err := r.lead(r.life, nil); err != nil {
			continue // The session finds out by itself whether the server is gone.
		}
		if time.Since(claimed) >= time.Duration(r.options.ClaimIdle)/4 && r.renewClaims(r.life) == nil {
			claimed = time.Now()
		}
	}
}

func (r *reader) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inlet != nil
}

// renewClaims resets the idle time of everything held, so that nobody takes it for abandoned.
func (r *reader) renewClaims(ctx context.Context) error {
	r.mu.Lock()
	ids := make([]string, 0, len(r.held))
	for id := range r.held {
		ids = append(ids, id.String())
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	pipeline := r.client.Pipeline()
	for len(ids) > 0 {
		n := min(len(ids), ackChunk)
		pipeline.XClaimJustID(ctx, r.claimOf(ids[:n], 0))
		ids = ids[n:]
	}
	_, err := pipeline.Exec(ctx)
	return err
}

func (r *reader) claimOf(ids []string, idle time.Duration) *redis.XClaimArgs {
	return &redis.XClaimArgs{
		Stream: r.source.Topic, Group: r.source.Group, Consumer: r.consumer, MinIdle: idle, Messages: ids,
	}
}

// release gives the lease back if this instance has it. A server that cannot be reached lets it run out.
func (r *reader) release() {
	if !r.leads() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.client.Eval(ctx, releaseScript, []string{leaseKey(r.source)}, r.token).Err()
}
