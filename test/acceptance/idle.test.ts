import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';

/** Length of the measurement: as long as the interval of the job that samples the history. */
const WINDOW_MS = 10_000;
/** Maximum commands a second. The average is 0.95, and jobs that run every 30 s may fall into the window. */
const MAX_PER_SECOND = 1.15;

const bus = RunningBus.forTests({
  env: { ROUTEMASTER_WORKER_THREADS: '2', ROUTEMASTER_SWEEP_INTERVAL: '300' },
});

/** Returns the commands that clients send within the window, without those that scripts run. */
async function commandsSent(): Promise<string[]> {
  const socket = connect(bus.redis.socketPath ?? '');
  await once(socket, 'connect');
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  const beganMs = Date.now();
  socket.write('MONITOR\r\n');
  const lines = () => text.split('\r\n').filter((line) => line !== '+OK' && line !== '');
  const isWithin = (line: string) => Number(line.slice(1).split(' ', 1)[0]) * 1000 < beganMs + WINDOW_MS;
  // The first command after the window shows that all those within it have come.
  await until(() => lines().some((line) => !isWithin(line)), { what: 'the window is over' });
  socket.destroy();
  return lines().filter((line) => isWithin(line) && !/^\+\S+ \[\d+ lua\]/.test(line));
}

test('each process of an idle bus sends Redis about one command a second', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await publisher.publish(topic, { url: 'https://shop.example.com/1' });
  await receiver.delivery(1);
  // The processes are idle once they have flushed their counters.
  await until(async () => (await bus.metric('routemaster_delivery_events_total')) === 1);
  await until(async () => (await bus.metric('routemaster_processes_total', { type: 'worker' })) === 1);
  const sent = await commandsSent();
  const processes = 2;
  assert.ok(
    sent.length <= (MAX_PER_SECOND * processes * WINDOW_MS) / 1000,
    `${sent.length}:\n${sent.join('\n').slice(0, 5000)}`,
  );
});
