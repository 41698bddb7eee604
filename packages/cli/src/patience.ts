import type { Bus } from './bus.ts';
import { reach, tlsInstead } from './doctor_connections.ts';

const SILENT_MS = 1000;
/** Statuses after which the client library repeats a call, such as 503 while the Redis of the bus is away. */
const REPEATED = [429, 502, 503, 504];

interface Waiting {
  bus: Bus;
  url: string;
  /** How long the client library goes on repeating a failing call, in all. */
  timeoutMs: number;
}

/**
 * After a second, writes a line on stderr if the bus cannot be reached or temporarily refuses calls. Without this line,
 * the user would see nothing while calls are repeated. The line is written even if stderr is no terminal, because the
 * log of a CI job should have it too.
 */
export function sayIfRepeated({ bus, url, timeoutMs }: Waiting, stderr: NodeJS.WriteStream): void {
  setTimeout(async () => {
    const why = await trouble(bus, url);
    if (why !== undefined) stderr.write(`${url} ${why}; trying again, for ${timeoutMs / 1000} s in all\n`);
  }, SILENT_MS).unref();
}

async function trouble({ lastStatus }: Bus, url: string): Promise<string | undefined> {
  if (lastStatus !== undefined && REPEATED.includes(lastStatus)) return `answers ${lastStatus}`;
  const problem = (await reach(url, SILENT_MS)) ?? (await tlsInstead(url, SILENT_MS));
  return problem && `cannot be reached (${problem})`;
}
