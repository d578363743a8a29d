/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binding between Lua and libp4d for job_submit.lua in this folder, which runs inside slurmctld:
 *
 *     local said = require("lua_p4d").estimate("llama3-8b", "--gpu=h100-80gb", "--gpus=8")
 *     if said and said.verdict == "reject" then print(said.code, said.message) end
 *
 * The query is a quick one (p4d(3)): p4d reads no file and searches nothing for it. Errors of a query are
 * replies. The only error that this code raises is Lua's own, without memory, and then Lua collects what is
 * held.
 *
 * job_submit/lua of Debian's Slurm has Lua 5.1 (apt-get install liblua5.1-0-dev libp4d-dev):
 *
 *     cc -shared -fPIC -Wl,-z,nodelete -o lua_p4d.so lua_p4d.c \
 *         $(pkg-config --cflags lua5.1) $(pkg-config --cflags --libs p4d)
 *
 * Lua finds the file in /usr/local/lib/lua/5.1.
 */
#include <lauxlib.h>
#include <lua.h>
#include <p4d.h>

typedef struct held {
	p4d_query *query;
	p4d_reply *reply;
} held;

static const char kind[] = "p4d query";

/* Slurm loads job_submit.lua again after a change, and closes the old state. */
static int collect(lua_State *lua)
{
	held *h = luaL_checkudata(lua, 1, kind);

	p4d_query_free(h->query);
	p4d_reply_free(h->reply);
	*h = (held){NULL, NULL};
	return 0;
}

static held *hold(lua_State *lua)
{
	held *h = lua_newuserdata(lua, sizeof(*h));

	*h = (held){NULL, NULL};
	luaL_getmetatable(lua, kind);
	lua_setmetatable(lua, -2);
	return h;
}

/* Whether each of the first values on the stack is a string, and is now a word of the query. */
static int takes(lua_State *lua, int words, p4d_query *query)
{
	for (int i = 1; i <= words; i++)
		if (lua_type(lua, i) != LUA_TSTRING || p4d_query_word(query, lua_tostring(lua, i)) < 0)
			return 0;
	return p4d_query_quick(query) == 0;
}

static void set_text(lua_State *lua, const char *name, const char *text)
{
	lua_pushstring(lua, text); /* NULL: nil */
	lua_setfield(lua, -2, name);
}

static void set_number(lua_State *lua, const char *name, const p4d_reply *reply, const char *pointer)
{
	double value;

	if (p4d_reply_number(reply, pointer, &value) < 0)
		return;
	lua_pushnumber(lua, value);
	lua_setfield(lua, -2, name);
}

/* estimate(WORD...): a table. nil: a word is not a string, or there is no memory. */
static int estimate(lua_State *lua)
{
	const int words = lua_gettop(lua);
	held *h = hold(lua);

	h->query = p4d_query_new("estimate");
	if (h->query && takes(lua, words, h->query))
		h->reply = p4d_query_run(h->query);
	if (!h->reply)
		return 0;
	lua_newtable(lua);
	set_text(lua, "verdict", p4d_reply_verdict(h->reply));
	set_text(lua, "message", p4d_reply_message_text(h->reply, 0));
	set_number(lua, "need_bytes", h->reply, "/peak/device_bytes");
	set_number(lua, "usable_bytes", h->reply, "/gpu/usable_bytes");
	lua_pushinteger(lua, p4d_reply_code(h->reply));
	lua_setfield(lua, -2, "code");
	return 1;
}

int luaopen_lua_p4d(lua_State *lua)
{
	luaL_newmetatable(lua, kind);
	lua_pushcfunction(lua, collect);
	lua_setfield(lua, -2, "__gc");
	lua_newtable(lua);
	lua_pushcfunction(lua, estimate);
	lua_setfield(lua, -2, "estimate");
	return 1;
}
