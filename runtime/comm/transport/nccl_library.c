/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/transport/nccl_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/channel.h"

int p4d_nccl__open(p4d_nccl **nccl, const char *library, p4d_error *err)
{
	const char *missing = NULL;
	p4d_nccl *n = calloc(1, sizeof(*n));

	if (!n)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for NCCL");
	if (!library)
		library = "libnccl.so.2";
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		p4d_fail(err, P4D_E_IO, "%s", dlerror());
		free(n);
		return -1;
	}
	/* POSIX requires this conversion of dlsym's result to a function pointer */
#define FIND(name, result, arguments) \
	*(void **)&n->name = dlsym(handle, "nccl" #name); \
	if (!n->name) \
		missing = "nccl" #name;
	P4D_NCCL_CALLS(FIND)
#undef FIND
#define FIND(name, result, arguments) *(void **)&n->name = dlsym(handle, "nccl" #name);
	P4D_NCCL_LATER_CALLS(FIND)
#undef FIND
	if (missing || n->GetVersion(&n->version) != P4D_NCCL_SUCCESS) {
		p4d_fail(err, P4D_E_IO, "%s has no %s", library, missing ? missing : "version");
		free(n);
		return -1;
	}
	*nccl = n;
	return 0;
}

void p4d_nccl__close(p4d_nccl *nccl)
{
	free(nccl);
}

int p4d_nccl__result(const p4d_nccl *nccl, int result, const p4d_nccl_comm *comm, const char *doing,
		     p4d_error *err)
{
	if (result == P4D_NCCL_SUCCESS)
		return 0;
	const char *more = nccl->GetLastError(comm->comm);
	/* NCCL's text has several lines, but a p4d_error has one */
	const int length = more ? (int)strcspn(more, "\n") : 0;
	return p4d_fail(err, P4D_E_RANK, "NCCL, %s, %s: %s%s%.*s", comm->about, doing,
			nccl->GetErrorString(result), length ? ": " : "", length < 160 ? length : 160,
			length ? more : "");
}

typedef struct p4d_opening {
	const p4d_nccl *nccl;
	p4d_device *device;
	p4d_nccl_setup setup;
	p4d_nccl_comm *comm;
	p4d_error err;
	int rc;
	_Atomic bool over;
} p4d_opening;

static int open_comm(p4d_opening *o)
{
	const p4d_nccl_setup *b = &o->setup;
	p4d_nccl_config config = {
	    .size = sizeof(config),
	    .magic = P4D_NCCL_CONFIG_MAGIC,
	    .version = P4D_NCCL_CONFIG_VERSION,
	    .blocking = 1, /* with 0, NCCL would create a thread for every call */
	    .cga_cluster_size = INT_MIN,
	    .min_ctas = INT_MIN,
	    .max_ctas = b->most_ctas ? b->most_ctas : INT_MIN,
	};

	if (o->device->attach(o->device, &o->err) < 0)
		return -1;
	int result = o->nccl->CommInitRankConfig(&o->comm->comm, b->ranks, b->id, b->rank, &config);
	if (p4d_nccl__result(o->nccl, result, o->comm, "start", &o->err) < 0)
		return -1;
	return p4d_nccl__result(o->nccl, b->first(o->nccl, b, o->comm->comm), o->comm, "first operation",
				&o->err);
}

static void *open_aside(void *context)
{
	p4d_opening *o = context;

	o->rc = open_comm(o);
	atomic_store(&o->over, true);
	return NULL;
}

/* Waits until the thread is done, and watches the world. Returns -1 if the world breaks. */
static int listen_meanwhile(p4d_opening *o, p4d_world *w, p4d_error *err)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (!atomic_load(&o->over)) {
		if (w->active)
			p4d_channel_push_all(w);
		if (p4d_world_check(w, err) < 0)
			return -1;
		nanosleep(&nap, NULL);
	}
	return 0;
}

/*
 * Runs the thread and waits for its end. -1: the thread failed, could not start, or still runs although the
 * world is broken.
 */
static int open_in_thread(p4d_opening *o, p4d_world *w, p4d_error *err)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, open_aside, o) != 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "cannot create a thread for NCCL");
	if (listen_meanwhile(o, w, err) < 0)
		return -1;
	pthread_join(thread, NULL);
	if (o->rc < 0 && err)
		*err = o->err;
	return o->rc;
}

int p4d_nccl__comm_open(p4d_nccl *nccl, p4d_world *w, p4d_device *device, const p4d_nccl_setup *setup,
			p4d_nccl_comm **comm, p4d_error *err)
{
	p4d_opening *o = calloc(1, sizeof(*o));

	if (o)
		o->comm = calloc(1, sizeof(*o->comm));
	if (!o || !o->comm) {
		free(o);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for NCCL");
	}
	o->nccl = nccl;
	o->device = device;
	o->setup = *setup;
	memcpy(o->comm->about, setup->about, sizeof(setup->about));
	if (open_in_thread(o, w, err) < 0)
		/* *o leaks here, because the thread may still use it; the process is about to end */
		return -1;
	o->comm->next = nccl->comms;
	nccl->comms = *comm = o->comm;
	free(o);
	return 0;
}

bool p4d_nccl__comm_register(const p4d_nccl *nccl, p4d_nccl_comm *comm, void *memory, uint64_t bytes)
{
	void *handle = NULL;

	if (nccl->CommRegister && nccl->CommDeregister &&
	    nccl->CommRegister(comm->comm, memory, bytes, &handle) == P4D_NCCL_SUCCESS)
		comm->registered = handle;
	return comm->registered != NULL;
}

void p4d_nccl__comm_forget(const p4d_nccl *nccl, p4d_nccl_comm *comm)
{
	if (comm->registered)
		nccl->CommDeregister(comm->comm, comm->registered);
	comm->registered = NULL;
}

void p4d_nccl__comm_close(p4d_nccl *nccl, p4d_nccl_comm *comm, bool orderly)
{
	if (!comm)
		return;
	for (p4d_nccl_comm **at = &nccl->comms; *at; at = &(*at)->next)
		if (*at == comm) {
			*at = comm->next;
			break;
		}
	/* only without an error, because closing would wait for ranks that are gone */
	if (orderly)
		p4d_nccl__comm_forget(nccl, comm);
	if (orderly)
		nccl->CommDestroy(comm->comm);
	free(comm);
}

int p4d_nccl__watch(const p4d_nccl *nccl, p4d_error *err)
{
	int state;

	for (const p4d_nccl_comm *c = nccl->comms; c; c = c->next) {
		int result = nccl->CommGetAsyncError(c->comm, &state);
		if (result == P4D_NCCL_SUCCESS && state != P4D_NCCL_IN_PROGRESS)
			result = state;
		if (p4d_nccl__result(nccl, result, c, "in progress", err) < 0)
			return -1;
	}
	return 0;
}
