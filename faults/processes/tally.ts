import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { listenLocally } from '../../harness/processes/ports.ts';

/** Matches the URLs of the events that processes/offer.ts sends. */
const URLS = /"url":"https:\/\/shop\.example\.com\/([^/"]+)\/(\d+)\/(\d+)"/g;
/** Maximum events of a POST. With it, each event has a number of its own: `post * MAX_PER_POST + n`. */
const MAX_PER_POST = 1000;

export type TallyCalls = { listen: typeof listen; received: typeof received; missing: typeof missing };

/** The numbers of the received events, by the name of their load. */
const came = new Map<string, Set<number>>();
let all = 0;

/** Starts a subscriber that takes and remembers every event. Resolves with its callback. */
async function listen(): Promise<string> {
  const server = createServer(async (request, response) => {
    const body = await text(request);
    response.writeHead(204).end();
    for (const [, name = '', post, n] of body.matchAll(URLS)) {
      const own = came.get(name) ?? new Set();
      came.set(name, own);
      own.add(Number(post) * MAX_PER_POST + Number(n));
      all++;
    }
  });
  return `http://127.0.0.1:${await listenLocally(server)}/events`;
}

/** Events received so far. */
function received(): number {
  return all;
}

/** Returns how many events of these POSTs are missing. */
function missing(name: string, posts: number[], perPost: number): number {
  const own = came.get(name) ?? new Set();
  let count = 0;
  for (const post of posts) {
    for (let n = 0; n < perPost; n++) if (!own.has(post * MAX_PER_POST + n)) count++;
  }
  return count;
}

serveCalls({ listen, received, missing } satisfies TallyCalls);
