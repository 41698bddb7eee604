// Accepts events over HTTP and adds a job for each event and subscriber, all of a request in one call of addBulk.
import { timingSafeEqual } from 'node:crypto';
import { Queue } from 'bullmq';
import express from 'express';
import { connect, JOB_OPTIONS, QUEUE } from './settings.js';

const queue = new Queue(QUEUE, { connection: connect(), defaultJobOptions: JOB_OPTIONS });
/** The callbacks of each topic. They are known from the start; a real service would ask a database now and then. */
const subscribers = new Map(Object.entries(JSON.parse(process.env.SUBSCRIBERS ?? '{}')));
const expected = Buffer.from(`Basic ${Buffer.from(process.env.CREDENTIALS ?? '').toString('base64')}`);

function authenticate(request, response, next) {
  const given = Buffer.from(request.headers.authorization ?? '');
  if (given.length === expected.length && timingSafeEqual(given, expected)) next();
  else response.status(401).end();
}

/** Returns an event as subscribers get it. */
function delivered(topic, { type, url, timestamp, data }) {
  return { topic, type, url, t: timestamp, data };
}

/** Returns a handler that adds jobs of `eventsOfJob` events each. */
function accept(eventsOfJob) {
  return async (request, response) => {
    const { topic } = request.params;
    const events = [request.body].flat().map((event) => delivered(topic, event));
    const jobs = [];
    for (const callback of subscribers.get(topic) ?? []) {
      for (let at = 0; at < events.length; at += eventsOfJob)
        jobs.push({ name: topic, data: { callback, events: events.slice(at, at + eventsOfJob) } });
    }
    await queue.addBulk(jobs);
    response.status(204).end();
  };
}

const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.use(authenticate, express.json({ limit: '5mb' }));
app.post('/topics/:topic', accept(1));
app.post('/batches/:topic', accept(Number.POSITIVE_INFINITY));
const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ level: 30, msg: 'listening', port: server.address().port })}\n`);
});
process.on('SIGTERM', () => process.exit());
