import { connect } from 'node:tls';

/** Enough for a handshake; the command has failed already. */
const TIMEOUT_MS = 2000;

/** Whether the server at the address of a URL speaks TLS, with any certificate. */
export function speaksTls({ hostname, port, protocol }: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    const defaultPort = protocol === 'https:' ? 443 : 80;
    const socket = connect({ host, port: Number(port || defaultPort), rejectUnauthorized: false });
    const end = (isTls: boolean) => {
      socket.destroy();
      resolve(isTls);
    };
    socket.setTimeout(TIMEOUT_MS, () => end(false));
    socket.once('secureConnect', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}
