// These tests share one bus, because its start takes as much CPU as most of them. Suspects come last: they
// announce crashes, which no other test may log.
import './crashes.ts';
import './clocks.ts';
import './suspects.ts';
