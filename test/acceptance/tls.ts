import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noOpenssl, selfSigned } from '../../harness/http/certificates.ts';
import { until } from '../../harness/until.ts';
import { bus } from './default_bus.ts';

test('an https callback with an untrusted certificate is refused, unless verification is turned off', {
  skip: noOpenssl,
}, async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { tls: selfSigned() });
  const verifying = bus.process('worker');
  await publisher.publish(topic, { url: 'https://shop.example.com/1' });
  await until(() =>
    verifying.log.some(
      ({ msg, reason }) => msg === 'failed to deliver' && /^DEPTH_ZERO_SELF_SIGNED_CERT/.test(String(reason)),
    ),
  );
  await until(async () => (await subscriber.report()).health_points <= 98);
  assert.deepEqual(receiver.deliveries, []);

  await verifying.stop();
  await bus.start('worker', { ROUTEMASTER_SSL_VERIFY: 'no' });
  await receiver.delivery(1);
  await until(async () => (await subscriber.report()).events.queued === 0);
});
