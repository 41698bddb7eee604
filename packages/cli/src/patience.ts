import { type Bus, REPEATED } from './bus.ts';
import { reach, tlsInstead } from './doctor_connections.ts';

const SILENT_MS = 1000;

interface Waiting {
  bus: Bus;
  url: string;
  /** How long the client library goes on repeating a failing call, in all. */
  timeoutMs: number;
}

/**
 * After a second, calls `note` with a line for the user if the bus cannot be reached or temporarily refuses calls.
 * Without this line, the user would see nothing while calls are repeated. The line goes to stderr even if that is no
 * terminal, because the log of a CI job should have it too. The user is told once of each trouble. Call the returned
 * function when the calls have ended: from then on, `note` is not called.
 */
export function sayIfRepeated({ bus, url, timeoutMs }: Waiting, note: (line: string) => void): () => void {
  let hasEnded = false;
  const timer = setTimeout(async () => {
    const kind = bus.lastStatus === 429 ? 'rate' : 'outage';
    // A call can wait long for its rate, and the bus can go away meanwhile. So look again.
    if (kind === 'rate') timer.refresh();
    const why = await trouble(bus, url);
    if (why === undefined || hasEnded || bus.told === kind) return;
    bus.told = kind;
    const limit =
      kind === 'rate' && bus.outlastsRates ? ' until it takes more' : `, for ${timeoutMs / 1000} s in all`;
    note(`${url} ${why}; trying again${limit}`);
  }, SILENT_MS).unref();
  return () => {
    hasEnded = true;
    clearTimeout(timer);
  };
}

async function trouble({ lastStatus }: Bus, url: string): Promise<string | undefined> {
  if (lastStatus !== undefined && REPEATED.includes(lastStatus)) return `answers ${lastStatus}`;
  const problem = (await reach(url, SILENT_MS)) ?? (await tlsInstead(url, SILENT_MS));
  return problem && `cannot be reached (${problem})`;
}
