// These tests of the packages share one bus, because its start takes as much CPU as the tests of a file.
import './client/calls.ts';
import './client/publishing.ts';
import './client/package.ts';
import './receiver/with_a_bus.ts';
import './receiver/killed.ts';
import './cli/package.ts';
