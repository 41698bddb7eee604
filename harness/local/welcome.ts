import type { Settings } from './settings.ts';

/** Commands to paste into other terminals: they create a client, a subscription and an event. */
export function welcome({ port, rootKey, rootKeyFrom }: Settings, redis: string): string {
  return `
Routemaster listens on http://127.0.0.1:${port}   (Ctrl-C stops it)
  root key   ${rootKey}   (from ${rootKeyFrom})
  Redis      ${redis}

To try it (README.md has the whole tour), run a subscriber in a second terminal:

  bin/receive 9292

and in a third, create a client, subscribe it, and publish an event:

  BUS=http://127.0.0.1:${port}
  ROOT_KEY=${quote(rootKey)}
  curl -u "$ROOT_KEY:" -d '{"name":"tour","token":"tour--local"}' $BUS/api_tokens
  curl -u tour--local: -d '{"topics":["widgets"],"callback":"http://127.0.0.1:9292/events","uuid":"tour"}' $BUS/subscription
  curl -u tour--local: -d '{"type":"create","url":"https://example.com/widgets/1"}' $BUS/topics/widgets
`;
}

function quote(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
