import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { answer, type Delivery, Receiver } from '../../../harness/http/receiver.ts';
import { sender } from '../../../harness/http/sender.ts';
import { root } from '../../../harness/processes/command.ts';
import { signatureHeaders } from '../../../src/delivering/sending/signatures.ts';
import { isSecret, newKeyPair, newSecret } from '../../../src/subscribing/signing_keys.ts';

/** The example of Standard Webhooks 1.0. */
const VECTOR = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: 1614265330,
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
};

const base64 = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64');
const headersOf = ({ headers }: Delivery) => headers as Record<string, string>;

describe('a signature', () => {
  test('equals that of the specification, over id, second and body', () => {
    const { secret, id, timestamp, body, signature } = VECTOR;
    assert.deepEqual(signatureHeaders(secret, id, timestamp * 1000 + 999, Buffer.from(body)), {
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signature,
    });
  });

  test('by ed25519 is verified with the public key that the subscriber got', () => {
    const { privateKey, publicKey } = newKeyPair();
    assert.match(publicKey, /^whpk_[A-Za-z0-9+/]{43}=$/);
    const headers = signatureHeaders(privateKey, 'id', 1_700_000_000_000, Buffer.from('{"ü":1}'));
    const [version, signature = ''] = headers['webhook-signature'].split(',');
    const x = Buffer.from(publicKey.slice(5), 'base64').toString('base64url');
    const key = createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x } });
    const isSigned = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'));
    assert.equal(version, 'v1a');
    assert.ok(isSigned('id.1700000000.{"ü":1}'));
    for (const other of ['id.1700000001.{"ü":1}', 'ie.1700000000.{"ü":1}', 'id.1700000000.{"ü":2}'])
      assert.ok(!isSigned(other));
  });

  test('by ed25519 is verified with the key as DER, as docs/receiving.md says', () => {
    const { privateKey, publicKey } = newKeyPair();
    const document = readFileSync(join(root, 'docs/receiving.md'), 'utf8');
    const [, head = ''] = /`([0-9a-f]+)` \(in hex\), then the key/.exec(document) ?? [];
    const der = Buffer.concat([Buffer.from(head, 'hex'), Buffer.from(publicKey.slice(5), 'base64')]);
    const headers = signatureHeaders(privateKey, 'id', 1_700_000_000_000, Buffer.from('x'));
    const signature = Buffer.from(headers['webhook-signature'].slice('v1a,'.length), 'base64');
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
    assert.ok(verify(null, Buffer.from('id.1700000000.x'), key, signature));
  });

  test('is made with each key that is still valid, the newest first', () => {
    const [newest, older, oldest] = [newSecret(), newSecret(), newSecret()];
    const signed = (atMs: number) =>
      signatureHeaders(`${newest} ${older}@2000 ${oldest}@1000`, 'id', atMs, Buffer.from('x'))[
        'webhook-signature'
      ].split(' ');
    const by = (secret: string, atMs: number) => new Webhook(secret).sign('id', new Date(atMs), 'x');
    assert.deepEqual(signed(999), [by(newest, 999), by(older, 999), by(oldest, 999)]);
    assert.deepEqual(signed(1000), [by(newest, 1000), by(older, 1000)]);
    assert.deepEqual(signed(2000), [by(newest, 2000)]);
  });

  test('that cannot be made throws, without showing the secret', () => {
    for (const damaged of ['', 'hunter2', 'whsec_hunter2', 'whsk_hunter2', `${newSecret()} whsec_hunter2@9`])
      assert.throws(
        () => signatureHeaders(damaged, 'id', 0, Buffer.from('x')),
        (error) => error instanceof RangeError && error.message === 'the signing secret is unreadable',
      );
  });
});

test('a secret is whsec_ and 24 to 64 bytes in Base64', () => {
  const good = [
    VECTOR.secret,
    newSecret(),
    `whsec_${base64(24)}`,
    `whsec_${base64(25)}`,
    `whsec_${base64(64)}`,
  ];
  for (const each of good) assert.ok(isSecret(each), each);
  const bad = [
    ...['', 'whsec_', base64(32), `whsec_${base64(23)}`, `whsec_${base64(65)}`, `whsk_${base64(32)}`],
    ...[
      `whsec_${base64(25).replaceAll('=', '')}`,
      `whsec_${base64(24)} `,
      `whsec_${base64(24)}@9`,
      `WHSEC_${base64(24)}`,
    ],
    ...[`whsec_${'_-'.repeat(16)}`, `whsec_ ${base64(24)}`, `whsec_${'!'.repeat(32)}`],
  ];
  for (const each of bad) assert.ok(!isSecret(each), each);
});

describe('a delivery', () => {
  async function receiverOf(t: TestContext) {
    const receiver = await Receiver.start();
    t.after(() => receiver.stop());
    return { receiver, send: sender(t, { allow: ['127.0.0.1'] }) };
  }

  test('to a subscriber with a secret is verified over the exact bytes of its body', async (t) => {
    const { receiver, send } = await receiverOf(t);
    const secret = newSecret();
    await send(receiver.callback, { signing: secret });
    const delivery = await receiver.delivery(1);
    const [event] = new Webhook(secret).verify(delivery.body, headersOf(delivery)) as { topic: string }[];
    assert.deepEqual(event, delivery.events[0]);
    assert.throws(
      () => new Webhook(secret).verify(`${delivery.body} `, headersOf(delivery)),
      /No matching signature/,
    );
    assert.throws(
      () => new Webhook(newSecret()).verify(delivery.body, headersOf(delivery)),
      /No matching signature/,
    );
    assert.doesNotMatch(
      JSON.stringify(delivery.headers),
      new RegExp(secret.slice(6, 20).replaceAll('+', '\\+')),
    );
  });

  test('is verified by both the new and the replaced secret', async (t) => {
    const { receiver, send } = await receiverOf(t);
    const [newest, old] = [newSecret(), newSecret()];
    await send(receiver.callback, { signing: `${newest} ${old}@${Date.now() + 60_000}` });
    const delivery = await receiver.delivery(1);
    for (const secret of [newest, old]) new Webhook(secret).verify(delivery.body, headersOf(delivery));
  });

  test('to a subscriber without a secret is not signed', async (t) => {
    const { receiver, send } = await receiverOf(t);
    receiver.answers(answer.status(204));
    await send(receiver.callback);
    const { headers } = await receiver.delivery(1);
    assert.deepEqual(
      ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => headers[name]),
      ['b'.repeat(20), undefined, undefined],
    );
  });
});

type Sent = [headers: Record<string, string>, body: string];

/** Returns the example in this language in docs/receiving.md that verifies a signature. */
function exampleIn(language: string): string {
  const [, section = ''] = readFileSync(join(root, 'docs/receiving.md'), 'utf8').split('\n## Signatures\n');
  const [, code = ''] = new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``).exec(section) ?? [];
  return code;
}

describe('the examples of docs/receiving.md recognize deliveries of the bus', () => {
  const secret = newSecret();
  const signed = (atMs = Date.now(), signing = secret) => ({
    'webhook-id': 'id',
    ...signatureHeaders(signing, 'id', atMs, Buffer.from('["ü"]')),
  });
  const genuine: Sent[] = [
    [signed(), '["ü"]'],
    [signed(Date.now(), `${newSecret()} ${secret}@9e15`), '["ü"]'],
  ];
  const forged: Sent[] = [
    [signed(), '["u"]'],
    [signed(Date.now() - 301_000), '["ü"]'],
    [signed(Date.now(), newSecret()), '["ü"]'],
    [{ ...signed(), 'webhook-signature': 'v1,ü' }, '["ü"]'],
    [{ ...signed(), 'webhook-timestamp': 'now' }, '["ü"]'],
    [{}, '["ü"]'],
  ];
  const right = [...genuine.map(() => true), ...forged.map(() => false)];

  test('with Node', async () => {
    process.env.SIGNING_SECRET = secret;
    const module = `data:text/javascript,${encodeURIComponent(`${exampleIn('js')}\nexport { isFromTheBus };`)}`;
    const { isFromTheBus } = await import(module);
    const judged = [...genuine, ...forged].map(([headers, body]) => isFromTheBus(headers, body));
    assert.deepEqual(judged, right);
  });

  const isMissing = spawnSync('python3', ['--version']).error !== undefined;
  test('with Python', { skip: isMissing }, () => {
    const judging = `
import json, sys
print(json.dumps([is_from_the_bus(headers, body.encode()) for headers, body in json.load(sys.stdin)]))`;
    const judged = execFileSync('python3', ['-c', exampleIn('python') + judging], {
      input: JSON.stringify([...genuine, ...forged]),
      env: { ...process.env, SIGNING_SECRET: secret },
    });
    assert.deepEqual(JSON.parse(String(judged)), right);
  });
});
