// These tests share one bus, because its start takes as much CPU as most of them. Joins announce refusals, and suspects
// crashes, which those before them may not log.
import './crashes.ts';
import './clocks.ts';
import './joins.ts';
import './suspects.ts';
