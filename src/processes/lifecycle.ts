import { BootError } from '../errors.ts';
import { type Log, logged } from '../log.ts';

/** Maximum time for stopping. A process that takes longer exits with 1. */
const STOP_LIMIT_MS = 24_000;

/**
 * Runs the main function of a process. If it throws a BootError, writes the error's message to stderr, and ends the
 * process with the error's exit code.
 */
export async function start(entry: () => Promise<void>): Promise<void> {
  try {
    await entry();
  } catch (error) {
    if (!(error instanceof BootError)) throw error;
    await endWith(error);
  }
}

/** Writes the message of the error to stderr, and ends this process with the exit code of the error. */
export async function endWith({ message, exitCode }: BootError): Promise<never> {
  process.stderr.write(`${message}\n`);
  await logged();
  process.exit(exitCode);
}

/**
 * Runs `stop` once at SIGTERM or SIGINT. Then exits with 0, or with 1 if `stop` fails or takes too long. Returns a
 * signal that is aborted when stopping begins.
 */
export function onStop(log: Log, stop: () => Promise<void>): AbortSignal {
  const stopping = new AbortController();
  const begin = (signal: NodeJS.Signals) => {
    if (stopping.signal.aborted) return;
    stopping.abort();
    log.info({ signal }, 'stopping');
    const end = (code: number) => void logged().then(() => process.exit(code));
    setTimeout(() => {
      log.error('could not stop in time');
      end(1);
    }, STOP_LIMIT_MS);
    stop().then(
      () => {
        log.info('stopped');
        end(0);
      },
      (error: unknown) => {
        log.fatal({ err: error }, 'could not stop cleanly');
        end(1);
      },
    );
  };
  process.on('SIGTERM', begin);
  process.on('SIGINT', begin);
  return stopping.signal;
}
