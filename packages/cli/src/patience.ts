import { reach, tlsInstead } from './doctor_connections.ts';

const SILENT_MS = 1000;

/**
 * Writes a line on stderr if the bus cannot be reached after a second. Without this line, the user would see nothing
 * while calls are repeated for up to `timeoutMs`. The line is written even if stderr is no terminal, for the log of a
 * CI job.
 */
export function sayIfUnreached(url: string, timeoutMs: number, stderr: NodeJS.WriteStream): void {
  setTimeout(async () => {
    const problem = (await reach(url, SILENT_MS)) ?? (await tlsInstead(url, SILENT_MS));
    if (problem !== undefined)
      stderr.write(`${url} cannot be reached (${problem}); trying again, for ${timeoutMs / 1000} s in all\n`);
  }, SILENT_MS).unref();
}
