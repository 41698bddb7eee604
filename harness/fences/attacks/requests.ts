import { sleep } from '../../../src/clock.ts';
import type { Attacker } from '../attacker.ts';
import type { RawConnection } from '../raw_connection.ts';

const MAX_BODY_BYTES = 5 * 1024 * 1024;
/** Interval at which connections are opened or bytes sent. The attacks must not fill the network. */
const OPEN_EVERY_MS = 100;

/** Sends many requests for `/metrics` without waiting for the answers, again and again. */
export function pipelineReads(attacker: Attacker, signal: AbortSignal): Promise<void> {
  return pipeline(attacker, signal, attacker.request('GET', '/metrics'), 200);
}

/** Sends many requests for topics without credentials, and without waiting for the answers. */
export function pipelineAsStranger(attacker: Attacker, signal: AbortSignal): Promise<void> {
  return pipeline(attacker, signal, attacker.request('GET', '/topics', { stranger: true }), 2000);
}

/** Publishes four events at a time on each of a hundred connections, as fast as they are accepted. */
export async function floodPublishes(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const body = '{"type":"noop","url":"https://evil.example.com/1"}';
  const request = attacker.request('POST', `/topics/${attacker.topic}`, { body });
  const flood = async () => {
    const connection = await attacker.connect();
    for (let sent = 4; !signal.aborted; sent += 4) {
      connection.write(request.repeat(4));
      await connection.answered(sent, signal);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: 100 }, flood));
}

async function pipeline(attacker: Attacker, signal: AbortSignal, request: string, count: number) {
  while (!signal.aborted) {
    const connection = await attacker.connect();
    connection.write(request.repeat(count));
    await connection.answered(count, signal);
    connection.close();
  }
}

/** Holds 1 GiB of bodies, each of which lacks a byte, on a route that the client may not even call. */
export function holdBodies(attacker: Attacker, signal: AbortSignal): Promise<void> {
  return holdOpen(attacker, signal, '/subscription', 200);
}

/** Holds all the memory that web has for bodies (128 MiB), by publishes that each lack their last byte. */
export function holdRoom(attacker: Attacker, signal: AbortSignal): Promise<void> {
  return holdOpen(attacker, signal, `/topics/${attacker.topic}`, 26);
}

/** Announces a long publish, and sends 100 kB of it a second. Below 64 KiB a second the body would count as stalled. */
export async function dripBody(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const headers = { 'content-length': String(MAX_BODY_BYTES) };
  const connection = await attacker.connect();
  connection.write(attacker.request('POST', `/topics/${attacker.topic}`, { headers }));
  while (!signal.aborted) {
    connection.write(Buffer.alloc(10_000, ' '));
    await sleep(OPEN_EVERY_MS, signal);
  }
  connection.close();
}

async function holdOpen(attacker: Attacker, signal: AbortSignal, path: string, count: number) {
  const headers = { 'content-length': String(MAX_BODY_BYTES) };
  const head = attacker.request('POST', path, { headers });
  const body = Buffer.alloc(MAX_BODY_BYTES - 1, ' ');
  let held: RawConnection[] = [];
  while (!signal.aborted) {
    held = held.filter(({ open }) => open);
    if (held.length < count) {
      const connection = await attacker.connect();
      connection.write(head);
      connection.write(body);
      held.push(connection);
    }
    await sleep(OPEN_EVERY_MS, signal);
  }
  for (const connection of held) connection.close();
}

/** Sends bodies, most of them publishes, that would be refused only after much parsing. */
export async function sendNonsense(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const event = `{"type":"noop","url":"https://evil.example.com/1","data":[${'{},'.repeat(130_000)}{}]}`;
  const bodies = ['['.repeat(MAX_BODY_BYTES), `[${'1'.repeat(MAX_BODY_BYTES - 2)}]`, event];
  const requests = [
    ...bodies.map((body) => attacker.request('POST', `/topics/${attacker.topic}`, { body })),
    attacker.request('PUT', '/triggers/evil', { body: `{"event":[${'{},'.repeat(170_000)}{}]}` }),
  ];
  for (let n = 0; !signal.aborted; n++) {
    const connection = await attacker.connect();
    connection.write(requests[n % requests.length] ?? '');
    await connection.answered(1, signal);
    connection.close();
  }
}

/** Sends bodies in chunks of one byte, on twenty connections. */
export async function sendTinyChunks(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const headers = { 'transfer-encoding': 'chunked' };
  const body = `${'1\r\n \r\n'.repeat(100_000)}0\r\n\r\n`;
  const request = attacker.request('POST', `/topics/${attacker.topic}`, { headers, body });
  const send = async () => {
    while (!signal.aborted) {
      const connection = await attacker.connect();
      connection.write(request);
      await connection.answered(1, signal);
      connection.close();
    }
  };
  await Promise.all(Array.from({ length: 20 }, send));
}
