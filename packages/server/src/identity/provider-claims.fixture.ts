import type { JsonObject } from '@sluice/protocol/json/parse';

/** Tokens of an identity provider in its layout, without the dates, and the settings that the documentation names for it. */
export interface ProviderTokens {
  readonly issuer: string;
  readonly audience: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** Members of the header beside `alg` and `kid`. */
  readonly header: Readonly<Record<string, string>>;
  readonly user?: JsonObject;
  readonly serviceAccount: JsonObject;
  /** The ID token of the same user. */
  readonly idToken?: JsonObject;
  /** Who the user is here, and which groups the service account has. */
  readonly expected: { readonly id?: string; readonly person?: string; readonly groups: readonly string[] };
}

const AUDIENCE = 'api://sluice';
const JWT = { typ: 'JWT' };
const NONCE = 'n-0S6_WzA2Mj';

const KEYCLOAK_USER = {
  sub: '3f1c9a52-7a0e-4a9b-9f0f-0a6f4dbd1c11',
  azp: 'agent',
  sid: '9b1f0a8e-61a5-4cf5-9a7e-3c1d2f9f2d10',
  acr: '1',
  email_verified: true,
  name: 'Ann Example',
  preferred_username: 'ann',
  email: 'ann@example.com',
};
const KEYCLOAK_ROLES = {
  realm_access: { roles: ['offline_access', 'platform'] },
  resource_access: { account: { roles: ['view-profile'] } },
};

const ENTRA_USER = {
  ver: '2.0',
  tid: '11111111-2222-3333-4444-555555555555',
  oid: 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee',
  sub: 'Hk0vMZ4pMNcjv3kbCbS3mR0c2zyGXtq6CgZWxPYl2zg',
  name: 'Ann Example',
  preferred_username: 'ann@example.com',
};

const OKTA_ID = '0oa1b2c3d4e5f6g7h8i9';

/** By the name of the provider. */
export const PROVIDERS: Readonly<Record<string, ProviderTokens>> = {
  keycloak: {
    issuer: 'https://id.example.com/realms/agents',
    audience: AUDIENCE,
    settings: { groups: ['realm_access.roles'], person: 'email' },
    header: JWT,
    user: {
      ...KEYCLOAK_USER,
      ...KEYCLOAK_ROLES,
      jti: 'onrtac:5b1c',
      aud: [AUDIENCE, 'account'],
      typ: 'Bearer',
      auth_time: 1_700_000_000,
      'allowed-origins': ['*'],
      scope: 'openid profile email',
    },
    serviceAccount: {
      ...KEYCLOAK_ROLES,
      jti: 'trrtcc:77aa',
      aud: [AUDIENCE, 'account'],
      sub: 'c8d5b1e0-51a1-4f7e-8a55-e1b2c3d4e5f6',
      typ: 'Bearer',
      azp: 'nightly',
      acr: '1',
      scope: 'profile email',
      clientHost: '10.0.0.9',
      clientAddress: '10.0.0.9',
      client_id: 'nightly',
      email_verified: false,
      preferred_username: 'service-account-nightly',
    },
    idToken: { ...KEYCLOAK_USER, aud: 'agent', typ: 'ID', nonce: NONCE, at_hash: 'x1' },
    expected: { id: KEYCLOAK_USER.sub, person: 'ann@example.com', groups: ['offline_access', 'platform'] },
  },
  entra: {
    issuer: `https://login.microsoftonline.com/${ENTRA_USER.tid}/v2.0`,
    audience: '99999999-8888-7777-6666-555555555555',
    settings: { user: 'oid', groups: ['groups', 'roles'], person: 'preferred_username' },
    header: JWT,
    user: {
      ...ENTRA_USER,
      aud: '99999999-8888-7777-6666-555555555555',
      azp: '12121212-3434-5656-7878-909090909090',
      azpacr: '0',
      groups: ['deadbeef-0000-0000-0000-000000000001'],
      roles: ['Platform'],
      scp: 'access_as_user',
      uti: 'xyz',
      rh: '0.AAA',
      aio: 'AXQ',
    },
    serviceAccount: {
      ver: '2.0',
      aud: '99999999-8888-7777-6666-555555555555',
      tid: ENTRA_USER.tid,
      azp: '34343434-3434-5656-7878-909090909090',
      azpacr: '1',
      oid: 'ffffffff-bbbb-cccc-dddd-eeeeeeeeeeee',
      sub: 'ffffffff-bbbb-cccc-dddd-eeeeeeeeeeee',
      roles: ['Platform'],
      uti: 'xyz',
    },
    idToken: { ...ENTRA_USER, aud: '12121212-3434-5656-7878-909090909090', nonce: NONCE },
    expected: { id: ENTRA_USER.oid, person: 'ann@example.com', groups: ['Platform'] },
  },
  okta: {
    issuer: 'https://example.okta.com/oauth2/default',
    audience: AUDIENCE,
    settings: { user: 'uid', groups: ['groups'], person: 'sub' },
    header: {},
    user: {
      ver: 1,
      jti: 'AT.abc',
      aud: AUDIENCE,
      cid: OKTA_ID,
      uid: '00u1',
      scp: ['openid', 'profile'],
      auth_time: 1_700_000_000,
      sub: 'ann@example.com',
      groups: ['Everyone', 'platform'],
    },
    serviceAccount: {
      ver: 1,
      jti: 'AT.def',
      aud: AUDIENCE,
      cid: OKTA_ID,
      scp: ['tools'],
      sub: OKTA_ID,
      uid: OKTA_ID,
      groups: ['platform'],
    },
    idToken: {
      ver: 1,
      jti: 'ID.abc',
      aud: OKTA_ID,
      sub: '00u1',
      amr: ['pwd'],
      idp: '00o1',
      nonce: NONCE,
      at_hash: 'x1',
    },
    expected: { id: '00u1', person: 'ann@example.com', groups: ['platform'] },
  },
  auth0: {
    issuer: 'https://example.eu.auth0.com/',
    audience: AUDIENCE,
    settings: { groups: ['https://sluice.example.com/roles', 'permissions'] },
    header: { typ: 'at+jwt' },
    user: {
      sub: 'auth0|6543',
      aud: [AUDIENCE, 'https://example.eu.auth0.com/userinfo'],
      azp: 'AbCdEf',
      scope: 'openid profile email',
      permissions: ['use'],
      'https://sluice.example.com/roles': ['platform'],
    },
    serviceAccount: {
      sub: 'GhIjKl@clients',
      aud: AUDIENCE,
      azp: 'GhIjKl',
      gty: 'client-credentials',
      scope: 'use',
      permissions: ['use'],
    },
    idToken: { sub: 'auth0|6543', aud: 'AbCdEf', nickname: 'ann', sid: 's1', nonce: NONCE },
    expected: { id: 'auth0|6543', groups: ['use'] },
  },
  kubernetes: {
    issuer: 'https://kubernetes.default.svc.cluster.local',
    audience: AUDIENCE,
    settings: { groups: ['kubernetes.io.namespace'] },
    header: {},
    serviceAccount: {
      aud: [AUDIENCE],
      jti: 'ea28',
      'kubernetes.io': {
        namespace: 'agents',
        node: { name: 'n1', uid: 'u0' },
        pod: { name: 'reporter-0', uid: 'u1' },
        serviceaccount: { name: 'reporter', uid: 'u2' },
      },
      sub: 'system:serviceaccount:agents:reporter',
    },
    expected: { groups: ['agents'] },
  },
};
