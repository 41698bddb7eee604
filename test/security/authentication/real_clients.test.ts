import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { createServer, request, type Server } from 'node:http';
import { beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { aroundTests } from '../../../harness/around_tests.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { answerParameters, header, parametersOf } from '../../authentication/digest_client.ts';
import { GuardedServer } from '../../authentication/guarded_server.ts';

// The tests of a client are skipped where it is not installed. On Debian and Ubuntu:
//   apt-get install curl python3-requests python3-httpx ruby-net-http-digest-auth
const run = promisify(execFile);

const bus = new GuardedServer();
const without = new GuardedServer({ md5: false }, bus.redis);

/** A router in front of the bus that shows clients only the challenge for MD5. */
class Md5Router {
  #server: Server | undefined;
  #port = 0;

  constructor(target: GuardedServer) {
    aroundTests(
      async () => {
        this.#server = createServer((incoming, outgoing) => {
          const { method, url: path, rawHeaders: headers } = incoming;
          const call = request({ host: '127.0.0.1', port: target.port, method, path, headers, agent: false });
          call.on('response', (answer) => {
            const challenges = (answer.headersDistinct['www-authenticate'] ?? []).filter((each) =>
              each.includes('algorithm=MD5'),
            );
            outgoing.writeHead(answer.statusCode ?? 0, { 'WWW-Authenticate': challenges });
            answer.pipe(outgoing);
          });
          incoming.pipe(call);
        });
        this.#port = await listenLocally(this.#server);
      },
      () => this.#server?.close(),
    );
  }

  get port(): number {
    if (this.#port === 0) throw new Error('the tests have not begun');
    return this.#port;
  }
}

const servers = { 'both algorithms': bus, 'SHA-256 alone': without, 'MD5 alone': new Md5Router(bus) };
type Choice = keyof typeof servers;

let token: string;
let secret: string;
beforeEach(async () => {
  ({ token, secret } = await bus.clients.create('billing'));
});

interface RealClient {
  name: string;
  command: string;
  /** A command that prints nothing and succeeds if the client is installed. */
  probe: string[];
  /** Makes three requests to a URL over one session, the last a POST, and prints the statuses. */
  args: (url: string, user: string, password: string) => string[];
  choices: Choice[];
}

const REQUESTS = `
import sys, requests
from requests.auth import HTTPDigestAuth
_, url, user, password = sys.argv
s = requests.Session(); s.trust_env = False; s.auth = HTTPDigestAuth(user, password)
print(s.get(url).status_code, s.get(url + '?a=1&b=%20').status_code, s.post(url, data='{}').status_code)`;

const HTTPX = `
import sys, httpx
_, url, user, password = sys.argv
with httpx.Client(auth=httpx.DigestAuth(user, password), trust_env=False) as s:
    print(s.get(url).status_code, s.get(url + '?a=1&b=%20').status_code, s.post(url, content='{}').status_code)`;

const RUBY = `
require 'net/http'; require 'net/http/digest_auth'
url, user, password = ARGV
digest = Net::HTTP::DigestAuth.new
uri = URI(url); uri.user = user; uri.password = URI.encode_www_form_component(password)
http = Net::HTTP.new(uri.host, uri.port, nil)
challenge = http.request(Net::HTTP::Get.new(uri.request_uri)).get_fields('www-authenticate').find { |c| c =~ /Digest.*=MD5/ }
statuses = [['Get', ''], ['Get', '?a=1&b=%20'], ['Post', '']].map do |verb, query|
  target = URI(uri.to_s + query)
  request = Net::HTTP.const_get(verb).new(target.request_uri)
  request.add_field('Authorization', digest.auth_header(target, challenge, verb.upcase))
  http.request(request, verb == 'Post' ? '{}' : nil).code
end
puts statuses.join(' ')`;

const curl = (...how: string[]): Pick<RealClient, 'command' | 'probe' | 'args'> => ({
  command: 'curl',
  probe: ['--version'],
  args: (url, user, password) => {
    const options = ['-s', '--noproxy', '*', '-o', '/dev/null', '-w', '%{http_code} ', ...how];
    const each = [...options, '-u', `${user}:${password}`];
    return [...each, url, '--next', ...each, `${url}?a=1&b=%20`, '--next', ...each, '-d', '{}', url];
  },
});

const all: Choice[] = ['both algorithms', 'SHA-256 alone', 'MD5 alone'];
const clients: RealClient[] = [
  { name: 'curl --digest', ...curl('--digest'), choices: all },
  { name: 'curl --anyauth', ...curl('--anyauth'), choices: all },
  {
    name: 'requests of Python',
    command: 'python3',
    probe: ['-c', 'import requests'],
    args: (...given) => ['-c', REQUESTS, ...given],
    choices: all,
  },
  {
    name: 'httpx of Python',
    command: 'python3',
    probe: ['-c', 'import httpx'],
    args: (...given) => ['-c', HTTPX, ...given],
    choices: all,
  },
  {
    name: 'net-http-digest_auth of Ruby',
    command: 'ruby',
    probe: ['-e', "require 'net/http/digest_auth'"],
    args: (...given) => ['-e', RUBY, ...given],
    // This client knows only MD5.
    choices: ['both algorithms', 'MD5 alone'],
  },
];

for (const { name, command, probe, args, choices } of clients) {
  const { status, error } = spawnSync(command, probe);
  const skip = error || status !== 0 ? `${name} is not installed` : false;
  describe(name, { skip }, () => {
    for (const choice of choices) {
      const statuses = async (password: string) => {
        const url = `http://127.0.0.1:${servers[choice].port}/client`;
        const { stdout } = await run(command, args(url, token, password), { timeout: 60_000 });
        return stdout.trim();
      };

      test(`is let in where there is ${choice}: twice, with a query, and posting`, async () => {
        assert.equal(await statuses(secret), '200 200 200');
      });

      test(`is refused with a wrong secret where there is ${choice}`, async () => {
        assert.equal(await statuses(`${secret}x`), '401 401 401');
      });
    }
  });
}

describe('MD5 that is turned off', () => {
  test('is not offered, and what answers with it all the same is refused', async () => {
    const { challenges } = await without.get('/client');
    assert.equal(challenges.length, 2);
    assert.doesNotMatch(challenges.join(), /MD5/);
    const given = { ...parametersOf(challenges[0] ?? ''), algorithm: 'MD5' };
    const answer = header(answerParameters(given, { user: token, secret, uri: '/client' }));
    const { status, body } = await without.get('/client', answer);
    assert.equal(status, 401);
    assert.match(String(body.detail), /one of the challenges/);
    assert.equal((await bus.get('/client', answer)).status, 200);
  });
});
