import type { AllowedCallbacks } from './allowed_callbacks.ts';
import { RECEIVER_PORT } from './sample_receiver.ts';

interface Started {
  busUrl: string;
  /** The value of HOST if other machines can reach the bus. */
  openHost: string | undefined;
  /** The place of the root key: a file, or a variable. */
  rootKeyFrom: string;
  redis: string;
  /** The file with `token:secret` of a client. */
  tourClient: string;
  callbacks: AllowedCallbacks;
}

/** Returns what bin/start prints when the bus runs: where everything is, and commands to try it. */
export function welcome(started: Started): string {
  const { busUrl, openHost, rootKeyFrom, redis, callbacks } = started;
  const network =
    openHost === undefined
      ? ''
      : `
  network    open: with HOST=${openHost} other machines can reach it, over plain http, where keys and secrets can be read`;
  return `
Routemaster listens on ${busUrl}   (Ctrl-C stops it)${network}
  console    ${busUrl}/console   (user root, with the root key as password)
  API        ${busUrl}/docs
  root key   in ${rootKeyFrom}
  Redis      ${redis}
  callbacks  ${callbacks.description}

${callbacks.receiverPort === undefined ? advice(callbacks) : commands(started, callbacks.receiverPort)}`;
}

function advice({ missing }: AllowedCallbacks): string {
  return `To try it with the tour of README.md, let callbacks lead to this machine: add ${missing.join(' and ')}, and start again.
`;
}

/** Returns commands to paste into other terminals, which make a subscription and an event. */
function commands({ busUrl, tourClient }: Started, receiverPort: number): string {
  const portOption = receiverPort === RECEIVER_PORT ? '' : ` --port ${receiverPort}`;
  return `To try it (README.md has the whole tour), say in two other terminals where it is, and which client was made for this:

  BUS=${busUrl}
  TOUR=$(cat ${quote(tourClient)})

Then listen in one of them, and publish in the other:

  bin/rtm listen widgets -b $BUS -t "$TOUR"${portOption}
  bin/rtm pub created widgets https://example.com/widgets/1 -b $BUS -t "$TOUR"

Or, with a subscriber that stays and with curl:

  bin/receive ${receiverPort}
  curl -u "$TOUR" -d '{"topics":["widgets"],"callback":"http://127.0.0.1:${receiverPort}/events","uuid":"tour"}' $BUS/subscription
  curl -u "$TOUR" -d '{"type":"create","url":"https://example.com/widgets/1"}' $BUS/topics/widgets
`;
}

/** Returns a text as one word of a shell. */
export function quote(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
