// These tests share one bus with two web processes. Tests that announce errors come last: such errors may be logged
// from then on, but not before.
import './unsubscribing.ts';
import './giving_topics.ts';
import './web_processes.ts';
