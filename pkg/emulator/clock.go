package emulator

import "time"

// Clock tells an emulated cloud when things are due.
//
// Objects of an emulated cloud age by the clock alone: a change writes down the instants at which the object's next states
// begin, and reading the object compares them with now. There is no goroutine or timer an object, so a cloud that is stopped
// and started again from its file is where it would have been.
type Clock struct {
	scale float64
	now   func() time.Time
}

// NewClock is a clock on which a second of the real cloud lasts scale seconds. A nil now is [time.Now]; tests give their own.
func NewClock(scale float64, now func() time.Time) Clock {
	if now == nil {
		now = time.Now
	}
	return Clock{scale: scale, now: now}
}

// Now is the present instant, in UTC and without a monotonic reading, so that it survives being written to a file unchanged.
func (c Clock) Now() time.Time { return c.now().UTC().Round(0) }

// After is the instant at which something begins that the real cloud begins d from now.
func (c Clock) After(d time.Duration) time.Time { return c.AfterInstant(c.Now(), d) }

// AfterInstant is the instant at which something begins that the real cloud begins d after start.
func (c Clock) AfterInstant(start time.Time, d time.Duration) time.Time {
	return start.Add(time.Duration(float64(d) * c.scale))
}

// Reached tells whether an instant has come. The zero time has: what was given no due time is not waited for.
func (c Clock) Reached(t time.Time) bool { return !c.Now().Before(t) }
