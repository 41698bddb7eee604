import { type Call, collect, numberOption } from './command.ts';
import { rubyYaml } from './yaml.ts';

/**
 * Subscribes the client. As with the Ruby tool `rtm`, the `uuid` (the user name in the credentials of deliveries) is
 * the client's token.
 */
export async function addSubscription(call: Call): Promise<void> {
  const [callback = '', ...topics] = call.args;
  const { token } = call.target();
  const [timeout, max] = [numberOption(call, 'latency'), numberOption(call, 'batch-size')];
  await call.connect().subscribe({ topics, callback, uuid: token, timeout, max });
}

export async function deleteSubscription(call: Call): Promise<void> {
  const bus = call.connect();
  if (call.args.length === 0) return void (await bus.leave());
  for (const topic of call.args) await bus.unsubscribe(topic);
}

export async function listSubscriptions(call: Call): Promise<void> {
  const subscriptions = await collect(call.connect().subscriptions());
  const shown = subscriptions.map(({ subscriber, callback, topics, events }) => {
    return { subscriber, callback, topics, events: { ...events } };
  });
  call.print(subscriptions, [rubyYaml(shown)]);
}
