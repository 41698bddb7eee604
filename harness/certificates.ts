import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'openssl is not on PATH';

/** An authority of our own, and a certificate for 127.0.0.1 that it vouches for; files, until `remove`. */
export class Certificates {
  readonly dir = mkdtempSync(join(tmpdir(), 'routemaster-tls-'));
  readonly ca = join(this.dir, 'ca.pem');
  readonly key = join(this.dir, 'key.pem');
  readonly cert = join(this.dir, 'cert.pem');

  /** `host`: what the certificate is for. */
  constructor(host = 'IP:127.0.0.1') {
    const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    const caKey = join(this.dir, 'ca-key.pem');
    this.#openssl('req', '-x509', ...ec, '-subj', '/CN=test CA', '-keyout', caKey, '-out', this.ca);
    const request = join(this.dir, 'request.pem');
    this.#openssl('req', ...ec, '-subj', '/CN=redis', '-keyout', this.key, '-out', request);
    const extensions = join(this.dir, 'extensions');
    writeFileSync(extensions, `subjectAltName=${host}\n`);
    const signing = [
      '-CA',
      this.ca,
      '-CAkey',
      caKey,
      '-CAcreateserial',
      '-days',
      '2',
      '-extfile',
      extensions,
    ];
    this.#openssl('x509', '-req', '-in', request, ...signing, '-out', this.cert);
  }

  /** The authority's certificate itself. */
  get caText(): string {
    return readFileSync(this.ca, 'utf8');
  }

  remove(): void {
    rmSync(this.dir, { recursive: true });
  }

  #openssl(...args: string[]): void {
    execFileSync('openssl', args, { stdio: 'ignore' });
  }
}
