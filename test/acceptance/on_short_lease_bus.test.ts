// These tests share one bus, because its start takes as much CPU as most of them. The tests of joins and suspects come
// last: the errors that they announce may be logged from then on, but not before.
import './crashes.ts';
import './clocks.ts';
import './joins.ts';
import './suspects.ts';
