// Delivers the events of each job. If they are not taken, the job is tried again as its options say.
import { Worker } from 'bullmq';
import { Pool } from 'undici';
import { connect, QUEUE } from './settings.js';

const concurrency = Number(process.env.CONCURRENCY);
const pools = new Map();

function poolOf(origin) {
  if (!pools.has(origin)) pools.set(origin, new Pool(origin, { connections: concurrency }));
  return pools.get(origin);
}

async function deliver({ data: { callback, events } }) {
  const { origin, pathname } = new URL(callback);
  const { statusCode, body } = await poolOf(origin).request({
    path: pathname,
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Basic ${btoa('benchmark:x')}` },
    body: JSON.stringify(events),
  });
  await body.dump();
  if (statusCode < 200 || statusCode > 299) throw new Error(`${callback} answered ${statusCode}`);
}

const connection = connect({ maxRetriesPerRequest: null });
const worker = new Worker(QUEUE, deliver, { connection, concurrency });
worker.on('error', (error) => process.stderr.write(`${error.stack}\n`));
await worker.waitUntilReady();
process.stdout.write(`${JSON.stringify({ level: 30, msg: 'delivering' })}\n`);
process.on('SIGTERM', () => process.exit());
