// `bin/test` runs these fences on one bus: the starts of a bus for each would take more CPU than their attacks. `npm run
// fences` runs each on a bus of its own.
import './refused_bodies.test.ts';
import './hanging_subscriber.test.ts';
import './kept_connections.test.ts';
import './workers.test.ts';
import './large_batches.test.ts';
import './held_bodies.test.ts';
import './pipelined_requests.test.ts';
