import { sleep } from '../../../src/clock.ts';
import type { Attacker } from '../attacker.ts';

/**
 * Time until the attacker answers a delivery. It holds a worker for long, but an answer is slow only after a second.
 */
const ALMOST_SLOW_MS = 900;
const DATA = 'x'.repeat(60_000);

/** Tries to occupy all workers, by many small batches that are answered just before they count as slow. */
export async function holdWorkers(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const callback = await attacker.sink({ afterMs: ALMOST_SLOW_MS });
  const wanted = { callback, uuid: 'evil', max: 1, timeout: 0, max_in_flight: 64 };
  await attacker.tries('POST', '/subscription', { topics: [attacker.topic], ...wanted });
  const events = Array.from({ length: 2000 }, (_, n) => event(n));
  while (!signal.aborted) {
    await attacker.tries('POST', `/topics/${attacker.topic}`, events);
    await sleep(10_000, signal);
  }
}

/**
 * Fills the largest batches that it can get, by a request of 1 MB every 100 ms. Without a limit of bytes, each would
 * grow for a minute, to more than 400 MB. 10,000 events are 600 MB.
 */
export async function fillBatches(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const callback = await attacker.sink({ afterMs: ALMOST_SLOW_MS });
  const wanted = { callback, uuid: 'evil', max: 10_000, max_bytes: 16 * 1024 * 1024, timeout: 60_000 };
  await attacker.tries('POST', '/subscription', { topics: [attacker.topic], ...wanted });
  const events = Array.from({ length: 16 }, (_, n) => ({ ...event(n), data: DATA }));
  while (!signal.aborted) {
    await attacker.tries('POST', `/topics/${attacker.topic}`, events);
    await sleep(100, signal);
  }
}

/** Moves the callback from host to host. Each host asks the bus to keep the connection for ten minutes. */
export async function keepConnections(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const callback = await attacker.sink({ keepAliveMs: 600_000 });
  for (let n = 0; !signal.aborted; n++) {
    const host = `127.1.${(n >> 8) % 256}.${n % 256}`;
    const moved = { callback: callback.replace('127.0.0.1', host), uuid: 'evil', max: 1, timeout: 0 };
    await attacker.tries('POST', '/subscription', { topics: [attacker.topic], ...moved });
    await attacker.tries('POST', `/topics/${attacker.topic}`, event(n));
  }
}

const event = (n: number) => ({ type: 'create', url: `https://evil.example.com/${n}` });
