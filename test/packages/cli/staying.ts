import { Readable, Writable } from 'node:stream';
import { run } from '../../../packages/cli/src/run.ts';

// Runs the commands that a Terminal sends, in one process.

interface Typed {
  id: number;
  args: string[];
  stdin: string;
}

/** A stream that is no terminal. */
function collecting(add: (text: string) => void): NodeJS.WriteStream {
  const write = (text: string, _encoding: string, done: () => void) => {
    add(text);
    done();
  };
  return new Writable({ decodeStrings: false, write }) as unknown as NodeJS.WriteStream;
}

process.on('message', async ({ id, args, stdin }: Typed) => {
  const printed = { stdout: '', stderr: '' };
  const status = await run(args, {
    env: process.env,
    folder: process.cwd(),
    stdin: Readable.from([Buffer.from(stdin)]) as unknown as NodeJS.ReadStream,
    stdout: collecting((text) => (printed.stdout += text)),
    stderr: collecting((text) => (printed.stderr += text)),
    interruption: () => new AbortController().signal,
  });
  process.send?.({ id, transcript: { ...printed, status } });
});
