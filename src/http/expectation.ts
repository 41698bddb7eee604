import type { IncomingMessage, ServerResponse } from 'node:http';

/** What the sender of a request waits for before it sends the body (`Expect: 100-continue`). */
const CONTINUE = Symbol('continue');

type Expecting = IncomingMessage & { [CONTINUE]?: () => void };

/**
 * A request of which the sender waits to be asked for the body. Answered before it was asked, it may send the body or not,
 * and what would be the next request could be either: so that answer ends the connection.
 */
export function withContinue(request: IncomingMessage, response: ServerResponse): IncomingMessage {
  const keepAlive = response.shouldKeepAlive;
  response.shouldKeepAlive = false;
  (request as Expecting)[CONTINUE] = () => {
    response.shouldKeepAlive = keepAlive;
    response.writeContinue();
  };
  return request;
}

/** To be called before a body is read: asks for it where its sender waits for that. */
export function askForBody(request: IncomingMessage): void {
  const expecting = request as Expecting;
  expecting[CONTINUE]?.();
  expecting[CONTINUE] = () => {};
}
