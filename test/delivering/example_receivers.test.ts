import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';
import { freePort } from '../../harness/processes/ports.ts';
import { until } from '../../harness/until.ts';

const ORDER = 'https://shop.example.com/orders/1';
const BATCH = JSON.stringify([
  { id: 'e1', topic: 'orders', type: 'create', url: ORDER, t: 1, data: { total: 42 } },
]);
const AUTHORIZATION = `Basic ${btoa('my-password:x')}`;

/** The example of a receiver in docs/receiving.md in this language, on a port of its own. */
async function exampleIn(language: string, port: number): Promise<string> {
  const document = await readFile(join(root, 'docs/receiving.md'), 'utf8');
  const [, section = ''] = document.split('\n## A receiver\n');
  const [, code = ''] = new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``).exec(section) ?? [];
  return code.replace('9292', String(port));
}

/** Sends the beginning of a delivery, and then closes the connection. */
async function sendHalf(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(
    `POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\nContent-Length: 999\r\n\r\n[`,
    () => socket.destroy(),
  );
  await once(socket, 'close');
}

describe('the receivers of docs/receiving.md take what is delivered, and outlive what is cut off', () => {
  // `cutOff` matches the end of what is printed about a delivery that was cut off. Events are printed after that, so
  // that their lines are not mixed with it.
  for (const { language, file, command, cutOff } of [
    { language: 'js', file: 'receiver.mjs', command: process.execPath, cutOff: /Error: .*\n/ },
    { language: 'python', file: 'receiver.py', command: 'python3', cutOff: /Error: .*\n-+\n/ },
  ]) {
    const isMissing = spawnSync(command, ['--version']).error !== undefined;
    test(file, { skip: isMissing }, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), 'routemaster-example-'));
      t.after(() => rm(folder, { recursive: true }));
      const port = await freePort();
      await writeFile(join(folder, file), await exampleIn(language, port));
      const env = { ...process.env, PYTHONUNBUFFERED: '1' };
      const receiver = new PrintingProcess(command, [file], { cwd: folder, env });
      t.after(() => receiver.kill());
      const post = (authorization: string) =>
        fetch(`http://127.0.0.1:${port}/events`, {
          method: 'POST',
          headers: { authorization, 'webhook-id': 'b1' },
          body: BATCH,
        });
      await until(() =>
        post('Basic wrong')
          .then(({ status }) => status === 401)
          .catch(() => false),
      );
      await sendHalf(port);
      await receiver.prints(cutOff);
      for (const attempt of [1, 2])
        assert.equal((await post(AUTHORIZATION)).status, 204, `attempt ${attempt}`);
      await receiver.prints(/e1 orders create https/);
      assert.equal(receiver.output.split('e1 orders create').length, 2);
    });
  }
});
