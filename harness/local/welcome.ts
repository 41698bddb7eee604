import { RECEIVER_PORT } from './sample_receiver.ts';

interface Started {
  busUrl: string;
  /** The place of the root key: a file, or a variable. */
  rootKeyFrom: string;
  redis: string;
  /** The file with `token:secret` of a client. */
  tourClient: string;
}

/** Returns commands to paste into other terminals, which make a subscription and an event. */
export function welcome({ busUrl, rootKeyFrom, redis, tourClient }: Started): string {
  return `
Routemaster listens on ${busUrl}   (Ctrl-C stops it)
  root key   in ${rootKeyFrom}
  Redis      ${redis}

To try it (README.md has the whole tour), run a subscriber in a second terminal:

  bin/receive ${RECEIVER_PORT}

and in a third, subscribe a client that is made for this, and publish an event:

  BUS=${busUrl}
  TOUR=$(cat ${quote(tourClient)})
  curl -u "$TOUR" -d '{"topics":["widgets"],"callback":"http://127.0.0.1:${RECEIVER_PORT}/events","uuid":"tour"}' $BUS/subscription
  curl -u "$TOUR" -d '{"type":"create","url":"https://example.com/widgets/1"}' $BUS/topics/widgets
`;
}

function quote(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
