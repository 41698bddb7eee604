// These tests share one bus, because its start takes as much CPU as a dozen commands. The doctor comes last: its last tests
// break the bus.
import './ruby_commands.ts';
import './commands.ts';
import './proxied.ts';
import './doctor.ts';
