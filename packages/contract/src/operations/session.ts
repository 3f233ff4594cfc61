import { z } from 'zod';
import { deleteResult } from '../schemas/envelope.ts';
import { session, signInSession, signOutResult } from '../schemas/session.ts';
import { defineOperation } from './operation.ts';

const tag = 'sign-in';

/** `/api/v1/session`, that of the caller, and `/api/v1/sessions`, those of all. */
export const sessionOperations = {
  get: defineOperation({
    id: 'getSession',
    method: 'GET',
    path: '/api/v1/session',
    right: 'open',
    tag,
    summary: 'Get who makes the request, and how to sign in',
    description: 'A credential that is not accepted is no error here: `rejected` says why.',
    responses: { 200: { description: 'The caller', data: session } },
    errors: [],
  }),
  signOut: defineOperation({
    id: 'signOut',
    method: 'POST',
    path: '/api/v1/session/logout',
    right: 'open',
    tag,
    summary: 'Sign out',
    description: 'Ends the sign-in that the cookie of the request proves, and revokes its refresh token at the issuer.',
    responses: { 200: { description: 'The result', data: signOutResult } },
    errors: [],
  }),
  list: defineOperation({
    id: 'listSessions',
    method: 'GET',
    path: '/api/v1/sessions',
    right: 'administer',
    tag,
    summary: 'List sign-ins',
    responses: { 200: { description: 'Sign-ins, newest first', data: z.array(signInSession) } },
    errors: [],
  }),
  end: defineOperation({
    id: 'endSession',
    method: 'DELETE',
    path: '/api/v1/sessions/{id}',
    right: 'administer',
    pathParameter: z.string().describe('Id of a sign-in.'),
    tag,
    summary: 'End a sign-in',
    description: 'Revokes its refresh token at the issuer, too.',
    responses: { 200: { description: 'Ended', data: deleteResult } },
    errors: ['NOT_FOUND'],
  }),
};
