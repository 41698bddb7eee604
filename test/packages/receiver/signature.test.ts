import assert from 'node:assert/strict';
import { generateKeyPairSync, sign } from 'node:crypto';
import { describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { signatureCheck } from '../../../packages/receiver/src/signature.ts';

const NOW_MS = 1_614_265_330_000;
/** The example of the specification of Standard Webhooks. */
const EXAMPLE = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  body: Buffer.from('{"test": 2432232314}'),
  headers: {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: '1614265330',
    signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
};

const check = (secrets: string[] = [EXAMPLE.secret]) => signatureCheck(secrets, 300);

describe('signatures of Standard Webhooks', () => {
  const { headers, body } = EXAMPLE;

  test('accepts the example of the specification', () => {
    assert.equal(check()(headers, body, NOW_MS), undefined);
  });

  test('refuses another body, id, time or secret', () => {
    const refused = /no signature of the delivery fits/;
    assert.match(String(check()(headers, Buffer.from('{"test": 2432232315}'), NOW_MS)), refused);
    assert.match(String(check()({ ...headers, id: 'msg_other' }, body, NOW_MS)), refused);
    assert.match(String(check()({ ...headers, timestamp: '1614265331' }, body, NOW_MS)), refused);
    assert.match(String(check(['whsec_b3RoZXIgc2VjcmV0IG9mIDI0IGJ5dGVz'])(headers, body, NOW_MS)), refused);
  });

  test('accepts five minutes of age and of lead, and no more', () => {
    const at = (seconds: number) => check()(headers, body, NOW_MS + seconds * 1000);
    assert.deepEqual([at(300), at(-300)], [undefined, undefined]);
    for (const refusal of [at(301), at(-301)]) assert.match(String(refusal), /not within 300 s of now/);
    const garbled = { ...headers, timestamp: 'NaN' };
    assert.match(String(check()(garbled, body, NOW_MS)), /not within 300 s/);
  });

  test('refuses a delivery without one of the headers', () => {
    for (const name of Object.keys(headers)) {
      assert.match(String(check()({ ...headers, [name]: undefined }, body, NOW_MS)), /is not signed/);
    }
  });

  test('accepts the signature of any secret, among several signatures', () => {
    const old = 'whsec_b2xkIHNlY3JldCBvZiAyNCBieXRlcyEh';
    const signature = new Webhook(old).sign(headers.id, new Date(NOW_MS), body.toString());
    const both = { ...headers, signature: `v1,AAAA v2,xyz ${signature}` };
    assert.equal(check([EXAMPLE.secret, old])(both, body, NOW_MS), undefined);
    assert.match(String(check()(both, body, NOW_MS)), /no signature/);
  });

  test('hashes a body once, however many signatures come with it', () => {
    const long = Buffer.alloc(16_000_000);
    const cpuMicros = (count: number) => {
      const signature = Array(count).fill(headers.signature).join(' ');
      const before = process.threadCpuUsage();
      assert.match(String(check()({ ...headers, signature }, long, NOW_MS)), /no signature/);
      return process.threadCpuUsage(before).user;
    };
    // The least of several ratios, because the speed of a busy machine changes from one measurement to the next.
    const ratios = Array.from({ length: 5 }, () => cpuMicros(4) / cpuMicros(1));
    assert.ok(Math.min(...ratios) < 2, `four signatures took ${ratios} times the CPU of one`);
  });

  test('verifies ed25519 by the public key', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const spki = publicKey.export({ format: 'der', type: 'spki' });
    const key = `whpk_${spki.subarray(-32).toString('base64')}`;
    const signed = sign(null, Buffer.from(`${headers.id}.${headers.timestamp}.${body}`), privateKey);
    const signature = `v1a,${signed.toString('base64')}`;
    assert.equal(check([key])({ ...headers, signature }, body, NOW_MS), undefined);
    assert.match(String(check([key])({ ...headers, signature }, Buffer.from('{}'), NOW_MS)), /no signature/);
    // The version of a signature must be the version of the key.
    const asV1 = signature.replace('v1a', 'v1');
    assert.match(String(check([key])({ ...headers, signature: asV1 }, body, NOW_MS)), /no signature/);
  });

  test('compares four signatures, which is as many as the bus sends', () => {
    const after = (others: number) => ({
      ...headers,
      signature: 'v1,AAAA '.repeat(others) + headers.signature,
    });
    assert.equal(check()(after(3), body, NOW_MS), undefined);
    assert.match(String(check()(after(4), body, NOW_MS)), /no signature/);
  });

  test('refuses malformed secrets at once', () => {
    assert.throws(() => check(['whpk_AAAA']), TypeError);
    assert.throws(() => check(['whsec_']), TypeError);
  });
});
