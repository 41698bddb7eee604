import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The reason for skipping a test that needs openssl; false if openssl is there. */
export const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'openssl is not on PATH';

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];

/**
 * Returns a certificate that no authority has signed, for 127.0.0.1 or another subject, such as
 * `DNS:hooks.example`.
 */
export function selfSigned(subject = 'IP:127.0.0.1'): { key: string; cert: string } {
  const dir = temporaryDir();
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const names = ['-subj', '/CN=callback', '-addext', `subjectAltName=${subject}`];
  try {
    openssl('req', '-x509', ...NEW_KEY, ...names, '-keyout', key, '-out', cert);
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** A certificate authority, and a certificate for 127.0.0.1 that it has signed. The files stay until `remove`. */
export class TestAuthority {
  readonly dir = temporaryDir();
  readonly ca = join(this.dir, 'ca.pem');
  readonly key = join(this.dir, 'key.pem');
  readonly cert = join(this.dir, 'cert.pem');

  constructor() {
    const [caKey, request, extensions] = ['ca-key.pem', 'request.pem', 'extensions'].map((name) =>
      join(this.dir, name),
    ) as [string, string, string];
    openssl('req', '-x509', ...NEW_KEY, '-subj', '/CN=test CA', '-keyout', caKey, '-out', this.ca);
    openssl('req', ...NEW_KEY, '-subj', '/CN=redis', '-keyout', this.key, '-out', request);
    writeFileSync(extensions, 'subjectAltName=IP:127.0.0.1\n');
    const signer = ['-CA', this.ca, '-CAkey', caKey, '-CAcreateserial', '-days', '2'];
    openssl('x509', '-req', '-in', request, ...signer, '-extfile', extensions, '-out', this.cert);
  }

  /** The authority's own certificate, in PEM. */
  get caText(): string {
    return readFileSync(this.ca, 'utf8');
  }

  remove(): void {
    rmSync(this.dir, { recursive: true });
  }
}

/** Returns the configuration of a Redis that speaks TLS on `port`, with these certificates. */
export function redisTls(port: number, { cert, key, ca }: TestAuthority): Record<string, string> {
  return {
    ...{ 'tls-port': String(port), 'tls-cert-file': cert, 'tls-key-file': key, 'tls-ca-cert-file': ca },
    'tls-auth-clients': 'no',
  };
}

function temporaryDir(): string {
  return mkdtempSync(join(tmpdir(), 'routemaster-tls-'));
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: 'ignore' });
}
