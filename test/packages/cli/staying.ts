import { Readable, Writable } from 'node:stream';
import { until } from '../../../harness/until.ts';
import { run } from '../../../packages/cli/src/run.ts';

// Runs the commands that a Terminal sends, in one process. A command has ended when nothing is left of it that would
// keep a process of its own from ending, such as a timer or a connection.

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

let running = 0;
let leftBefore = 0;

process.on('message', async ({ id, args, stdin }: Typed) => {
  if (running++ === 0) leftBefore = process.getActiveResourcesInfo().length;
  const printed = { stdout: '', stderr: '' };
  const status = await run(args, {
    env: process.env,
    folder: process.cwd(),
    stdin: Readable.from([Buffer.from(stdin)]) as unknown as NodeJS.ReadStream,
    stdout: collecting((text) => (printed.stdout += text)),
    stderr: collecting((text) => (printed.stderr += text)),
    interruption: () => new AbortController().signal,
  });
  // Of commands that run at the same time, the last one looks.
  if (--running === 0)
    await until(() => running > 0 || process.getActiveResourcesInfo().length <= leftBefore, {
      what: `rtm ${args.join(' ')} leaves nothing that keeps its process running`,
    });
  process.send?.({ id, transcript: { ...printed, status } });
});
